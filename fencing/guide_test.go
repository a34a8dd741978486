package fencing_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// flat takes the indentation away: a program in the guide may be a part of a function.
func flat(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}

func TestProgramsOfTheGuideAreThoseThatAreTested(t *testing.T) {
	guide, err := os.ReadFile("../docs/how-to/fencing.md")
	require.NoError(t, err)
	var files []string
	for _, where := range []string{"*_test.go", "*/*_test.go", "../kv/*_test.go", "../test/stores/*/*_test.go"} {
		found, err := filepath.Glob(where)
		require.NoError(t, err)
		files = append(files, found...)
	}
	var tested strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		tested.WriteString(flat(string(text)) + "\n")
	}
	blocks := goBlock.FindAllSubmatch(guide, -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		assert.True(t, strings.Contains(tested.String(), flat(string(b[1]))), "no test has this: %s", b[1])
	}
}
