package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// project returns the project's sources and faults.
func project(t *testing.T) (string, *sources, []fault) {
	root, err := projectRoot()
	require.NoError(t, err)
	src, err := readSources(root)
	require.NoError(t, err)
	all, err := faults()
	require.NoError(t, err)
	return root, src, all
}

func TestEveryFaultHasItsPlaceInTheSources(t *testing.T) {
	root, src, all := project(t)
	for _, f := range all {
		_, err := src.plant(f)
		assert.NoError(t, err, f.name)
		for _, folder := range f.tests {
			assert.DirExists(t, filepath.Join(root, folder), f.name)
		}
	}
	assert.Greater(t, len(all), 430)
}

func TestEveryRuleHasAFaultAndATest(t *testing.T) {
	root, src, all := project(t)
	list, err := rules(root, src, all)
	require.NoError(t, err)
	for _, r := range list {
		assert.NotEmpty(t, r.where, "no fault breaks %s", r.name)
		assert.NotEmpty(t, r.tests, "no test has a line // rule: %s", r.name)
		assert.NotEmpty(t, r.says, r.name)
	}
	assert.Greater(t, len(list), 80)
}

// The next tests move, rename and copy this function.
const moved = `package a

import (
	"os"
	"strings"
)

type T struct{}

func (t *T) Get() string {
	if os.Getpid() == 1 {
		return strings.ToUpper("one")
	}
	return "more"
}
`

// sourcesOf are those of a folder with these files.
func sourcesOf(t *testing.T, texts map[string]string) *sources {
	dir := t.TempDir()
	for file, text := range texts {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	src, err := readSources(dir)
	require.NoError(t, err)
	return src
}

// broken is the fault that is planted in moved.
func broken(t *testing.T) fault {
	all, err := parse("x", "fault it is not asked\nrule A1\ntests a\nin T.Get\n \tif os.Getpid() == 1 {\n-\t\treturn strings.ToUpper(\"one\")\n+\t\treturn time.Now().String()\n \t}\nimports time\n")
	require.NoError(t, err)
	return all[0]
}

func TestAFunctionThatMovesTakesItsFaultsWithIt(t *testing.T) {
	for _, file := range []string{"a/a.go", "b/c/other.go"} {
		planted, err := sourcesOf(t, map[string]string{file: moved}).plant(broken(t))
		require.NoError(t, err)
		assert.Equal(t, `package a; import "time"

import (
	"os"
	_ "strings"
)

type T struct{}

func (t *T) Get() string {
	if os.Getpid() == 1 {
		return time.Now().String()
	}
	return "more"
}
`, planted[file])
	}
}

func TestIndentationDoesNotCount(t *testing.T) {
	deeper := strings.NewReplacer("\tif os", "\tfor {\n\t\tif os", "\t\treturn strings", "\t\t\treturn strings", "\t}\n\treturn \"more\"", "\t\t}\n\t}").Replace(moved)
	planted, err := sourcesOf(t, map[string]string{"a.go": deeper}).plant(broken(t))
	require.NoError(t, err)
	assert.Contains(t, planted["a.go"], "\t\tif os.Getpid() == 1 {\n\t\t\treturn time.Now().String()\n\t\t}\n")
}

func TestAFaultWithoutItsPlaceSaysWhereToLook(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"renamed": {map[string]string{"a.go": strings.ReplaceAll(moved, ") Get", ") Read")}, "not there, but in T.Read of a.go: was it renamed?"},
		"gone":    {map[string]string{"a.go": "package a\n"}, "nothing has that name"},
		"changed": {map[string]string{"a.go": strings.ReplaceAll(moved, "ToUpper", "ToLower")}, "the lines do not stand there"},
		"twice":   {map[string]string{"a.go": moved, "b/b.go": moved}, "2 places (T.Get of a.go, T.Get of b/b.go)"},
	} {
		_, err := sourcesOf(t, c.files).plant(broken(t))
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestTwoEditsOfOneFileAreBothMade(t *testing.T) {
	f := broken(t)
	f.edits = append(f.edits, edit{in: "T.Get", lines: []line{{'-', "return \"more\""}, {'+', "return \"\""}}})
	planted, err := sourcesOf(t, map[string]string{"a.go": moved}).plant(f)
	require.NoError(t, err)
	assert.Contains(t, planted["a.go"], "\treturn \"\"\n")
	assert.Contains(t, planted["a.go"], "time.Now()")
	f.edits = append(f.edits, f.edits[0])
	_, err = sourcesOf(t, map[string]string{"a.go": moved}).plant(f)
	assert.ErrorContains(t, err, "changes the same lines")
}

func TestWhatIsNotUnderstoodIsAMistake(t *testing.T) {
	for text, want := range map[string]string{
		"rule A1\n":                      "no fault begins here",
		"fault a\n-x\n":                  "in which declaration?",
		"fault a\nrule A1\ntest b\n":     "not understood",
		"fault a\nrule A1\nin b\n-x\n":   "lacks",
		"fault a\nrule A1\ntests b\n\n#": "lacks",
	} {
		_, err := parse("x.txt", text)
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatCaughtAFaultIsWrittenBesideIt(t *testing.T) {
	text := "fault a\nrule A1\ntests x\nby TestOld\nin f\n-1\n+2\nin g\n-3\n\nfault b\nrule A2\ntests y\nin f\n-1\n"
	assert.Equal(t, text, recorded(text, nil))
	assert.Equal(t, strings.ReplaceAll(text, "TestOld", "TestNew"), recorded(text, map[string]string{"a": "TestNew"}))
	assert.Equal(t, strings.Replace(text, "tests y\n", "tests y\nby TestB\n", 1), recorded(text, map[string]string{"b": "TestB"}))
}

func TestTheFaultsOfAFileAreChosen(t *testing.T) {
	root, src, all := project(t)
	some, err := options{files: "./internal/session/validity.go, internal/clock/clock.go"}.choose(root, src, all)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range some {
		names[f.name] = true
	}
	assert.True(t, names["no margin"])
	assert.True(t, names["time slept does not count"])
	assert.Less(t, len(some), 40)
	some, err = options{files: "README.md"}.choose(root, src, all)
	require.NoError(t, err)
	assert.Empty(t, some)
}

func TestAWordThatNamesNoFaultIsAMistake(t *testing.T) {
	root, src, all := project(t)
	some, err := options{words: []string{"no margin", "a guard"}}.choose(root, src, all)
	require.NoError(t, err)
	assert.Len(t, some, 2)
	_, err = options{words: []string{"no margin", "no such fault"}}.choose(root, src, all)
	assert.ErrorContains(t, err, "no such fault")
	some, err = options{}.choose(root, src, all)
	require.NoError(t, err)
	assert.Len(t, some, len(all))
}

func TestADayHasItsSample(t *testing.T) {
	_, _, all := project(t)
	names := func(day string) (some []string) {
		for _, f := range sample(all, 5, day) {
			some = append(some, f.name)
		}
		return some
	}
	assert.Len(t, names("2026-01-01"), 5)
	assert.Equal(t, names("2026-01-01"), names("2026-01-01"))
	assert.NotEqual(t, names("2026-01-01"), names("2026-01-02"))
	assert.Len(t, sample(all, 10_000, "2026-01-01"), len(all))
}

func TestTheFirstFailureIsFound(t *testing.T) {
	for want, text := range map[string]string{
		"TestA/b":        "ok\n    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestC (0s)\n",
		"TestHangs":      "panic: test timed out after 1s\n\trunning tests:\n\t\tTestHangs (1s)\n",
		"TestDies":       "panic: deadlock\ngithub.com/x/y.TestDies.func1(0x1)\n",
		"test_a":         "..F\n====\nFAIL: test_a (test_session.SessionTest.test_a)\n",
		"test_hangs":     "Timeout (0:03:00)!\n  File \"t.py\", line 7 in handler\n  File \"t.py\", line 9 in test_hangs\n",
		"a lock is held": "# Subtest: a lock is held\nnot ok 2 - a lock is held\n  ---\n",
	} {
		require.NotEmpty(t, failures(text), text)
		assert.Equal(t, want, failures(text)[0])
	}
	assert.Empty(t, failures("ok"))
	assert.Equal(t, []string{"TestA", "TestC"}, failures("--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n--- FAIL: TestC (0s)\n"))
}
