package repo_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

var (
	paragraph   = regexp.MustCompile(`\n\s*\n|\n\s*(?:-|\d+\.) `)
	sentenceEnd = regexp.MustCompile(`[.:?!]\)?\**(?:\s+|$)`)
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
)

// sentences are those of a page, without the targets of links. What follows a colon is one too.
func sentences(page string) []string {
	var all []string
	for _, p := range paragraph.Split(linkTarget.ReplaceAllString(page, "]"), -1) {
		all = append(all, sentenceEnd.Split(strings.Join(strings.Fields(p), " "), -1)...)
	}
	return all
}

func TestTheRulesAreInSentencesOfFortyWordsAtMost(t *testing.T) {
	for _, page := range []string{"docs/explanation/safety.md", "docs/explanation/safety/details.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, s := range sentences(string(text)) {
			assert.LessOrEqual(t, len(strings.Fields(s)), 40, "%s: %s", page, s)
		}
	}
}
