package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryMutantHasItsPlaceInTheSources(t *testing.T) {
	root, err := projectRoot()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, m := range mutants {
		assert.False(t, names[m.name], m.name)
		names[m.name] = true
		assert.NotEmpty(t, m.rule)
		assert.NotEmpty(t, m.catch)
		_, err := plant(root, t.TempDir(), m.edits)
		assert.NoError(t, err, m.name)
	}
	assert.GreaterOrEqual(t, len(mutants), 20)
}

func TestEveryRuleIsBrokenByAFault(t *testing.T) {
	root, err := projectRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	broken := map[string]bool{}
	for _, m := range mutants {
		broken[m.rule] = true
	}
	rules := regexp.MustCompile(`(?m)^\| ([A-Z]+\d+) \|`).FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(rules), 70)
	for _, r := range rules {
		assert.True(t, broken[r[1]], r[1])
	}
}

func TestThePageHasARowForEveryFault(t *testing.T) {
	root, err := projectRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "results", "reliability.md"))
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- mutants -->")
	table, _, ok := strings.Cut(table, "<!-- /mutants -->")
	require.True(t, ok)
	for _, m := range mutants {
		row := fmt.Sprintf("| %s | %s | `", m.name, m.rule)
		assert.True(t, strings.Contains(table, "\n"+row), "make mutants writes the row %q", row)
	}
	assert.Equal(t, len(mutants)+2, strings.Count(table, "\n|"), "and for nothing else")
	caught, err := published(root)
	require.NoError(t, err)
	assert.Equal(t, catcher{inSession, "TestARenewalIsNotConfirmedBy"}, caught["no margin"])
	assert.NotContains(t, caught, "fault")
}

func TestAPlaceThatIsGoneIsSaid(t *testing.T) {
	root, err := projectRoot()
	require.NoError(t, err)
	_, err = plant(root, t.TempDir(), []edit{{"go.mod", "no such text", ""}})
	assert.ErrorContains(t, err, "0 times")
}

func TestAWordThatNamesNoFaultIsAMistake(t *testing.T) {
	some, err := choose([]string{"no margin", "a guard"}, false)
	require.NoError(t, err)
	assert.Len(t, some, 2)
	_, err = choose([]string{"no margin", "no such fault"}, false)
	assert.ErrorContains(t, err, "no such fault")
	_, err = choose([]string{"no margin"}, true)
	assert.ErrorContains(t, err, "leave out the words")
	every, err := choose(nil, true)
	require.NoError(t, err)
	assert.Len(t, every, len(mutants))
}

func TestADayHasItsSample(t *testing.T) {
	names := func(day string) (all []string) {
		for _, m := range sample(mutants, 5, day) {
			all = append(all, m.name)
		}
		return all
	}
	assert.Len(t, names("2026-01-01"), 5)
	assert.Equal(t, names("2026-01-01"), names("2026-01-01"))
	assert.NotEqual(t, names("2026-01-01"), names("2026-01-02"))
	assert.Len(t, sample(mutants, 10_000, "2026-01-01"), len(mutants))
}

func TestTheFirstFailureIsFound(t *testing.T) {
	assert.Equal(t, "TestA/b", firstFailure("ok\n    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestC (0s)\n"))
	assert.Equal(t, "TestHangs", firstFailure("panic: test timed out after 1s\n\trunning tests:\n\t\tTestHangs (1s)\n"))
	assert.Equal(t, "TestDies", firstFailure("panic: deadlock\ngithub.com/x/y.TestDies.func1(0x1)\n"))
	assert.Equal(t, "test_a", firstFailure("..F\n====\nFAIL: test_a (test_session.SessionTest.test_a)\n"))
	assert.Equal(t, "test_hangs", firstFailure("Timeout (0:03:00)!\n  File \"t.py\", line 7 in handler\n  File \"t.py\", line 9 in test_hangs\n"))
	assert.Equal(t, "a lock is held", firstFailure("# Subtest: a lock is held\nnot ok 2 - a lock is held\n  ---\n"))
	assert.Empty(t, firstFailure("ok"))
}
