package elect_test

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

// flat removes the indentation, because a program in the guide may be a part of a function.
func flat(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func TestProgramsOfTheGuideAreTheExamples(t *testing.T) {
	files, err := filepath.Glob("example_*test.go")
	require.NoError(t, err)
	var examples strings.Builder
	for _, f := range files {
		examples.WriteString(flat(read(t, f)) + "\n")
	}
	guide := read(t, "../docs/how-to/elections.md") + read(t, "../docs/how-to/migrating-elections.md")
	blocks := goBlock.FindAllStringSubmatch(guide, -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		program := strings.NewReplacer("package main", "package elect_test", "func main()", "func Example_cron()").Replace(b[1])
		assert.True(t, strings.Contains(examples.String(), flat(program)), "no example has this: %s", b[1])
	}
}
