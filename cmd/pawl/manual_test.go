package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everyCommand are all commands and topics that pawl help shows, by their paths.
func everyCommand(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	all := map[string]*cobra.Command{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if !below.Hidden && below.Name() != "completion" && below.Name() != "help" {
				all[below.CommandPath()] = below
				walk(below)
			}
		}
	}
	walk(newRoot())
	require.Greater(t, len(all), 10)
	return all
}

func TestEachCommandSaysWhatItDoesWithAnExample(t *testing.T) {
	t.Parallel()
	for path, c := range everyCommand(t) {
		assert.NotEmpty(t, c.Short, path)
		assert.Greater(t, len(c.Long), 100, path)
		if c.Runnable() {
			assert.Contains(t, c.Example, path, "the example of %s", path)
			assert.NotEmpty(t, c.GroupID, "%s stands in no group of pawl help", path)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Usage, "%s --%s", path, f.Name) })
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 88, "%s: %q", path, line)
		}
	}
}

// It finds flags in a page's code that pawl does not have, because they were renamed.
var flagInDocs = regexp.MustCompile("`(?:pawl [^`]*)?(--[a-z][a-z-]+)")

func TestDocsNameEachCommandAndEachFlagAndNoOther(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/commands.md")
	require.NoError(t, err)
	page := string(text)
	flags := map[string]bool{}
	for path, c := range everyCommand(t) {
		if !c.Runnable() {
			path = strings.Replace(path, "pawl ", "pawl help ", 1)
		}
		assert.True(t, strings.Contains(page, path), "docs/reference/commands.md does not name %s", path)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flags["--"+f.Name] = true
			named := regexp.MustCompile("`[^`]*--" + f.Name + `\b`).MatchString(page)
			assert.True(t, named, "docs/reference/commands.md does not name %s --%s", path, f.Name)
		})
	}
	flags["--help"] = true
	for _, m := range flagInDocs.FindAllStringSubmatch(page, -1) {
		assert.True(t, flags[m[1]], "docs/reference/commands.md names %s, which no command has", m[1])
	}
}

func TestManPagesSayWhatHelpSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, writeMan(newRoot(), dir))
	plainly := strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(rs`, `\`, `\&`, "", `\fB`, "", `\fP`, "", `\fR`, "", `\\`, `\`)
	for path, c := range everyCommand(t) {
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(path, " ", "-")+".1"))
		require.NoError(t, err)
		page := plainly.Replace(string(text))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			assert.Contains(t, page, "--"+f.Name, "%s.1", path)
		})
		for word := range strings.FieldsSeq(c.Long + " " + c.Example) {
			assert.Contains(t, page, strings.Trim(word, `'"`), "%s.1", path)
		}
		assert.NotContains(t, page, "0001", "a date")
	}
	assert.NoFileExists(t, filepath.Join(dir, "pawl-demo-worker.1"))
}
