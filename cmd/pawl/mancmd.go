package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages into DIR",
		Long: `Writes a man page for each command and topic into DIR, which it creates if necessary:
pawl.1, pawl-lock.1 and so on. The pages have the same text as pawl help.`,
		Example: `  pawl man ~/.local/share/man/man1`,
		Args:    cli.Words(1, "DIR"),
		RunE:    func(cmd *cobra.Command, args []string) error { return writeMan(newRoot(), args[0]) },
	}
}

// writeMan writes the pages of cmd and of its subcommands.
func writeMan(cmd *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Deprecated != "" {
			continue
		}
		if err := writeMan(c, dir); err != nil {
			return err
		}
	}
	page, err := manPage(cmd)
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(dir, name), page, 0o644)
}

// manPage is the page of one command. It has no date, so that the same source makes the same page.
func manPage(cmd *cobra.Command) ([]byte, error) {
	long, example := cmd.Long, cmd.Example
	defer func() { cmd.Long, cmd.Example = long, example }()
	cmd.Long, cmd.DisableAutoGenTag = forMan(long), true
	var page bytes.Buffer
	err := doc.GenMan(cmd, &doc.GenManHeader{
		Title: strings.ToUpper(strings.ReplaceAll(cmd.CommandPath(), " ", "-")), Section: "1",
		Source: "pawl", Manual: "pawl", Date: &time.Time{},
	}, &page)
	return bytes.ReplaceAll(page.Bytes(), []byte(`"Jan 0001"`), []byte(`""`)), err
}

var special = strings.NewReplacer(`\`, `\\`, "<", `\<`, ">", `\>`, "*", `\*`, "_", `\_`, "`", "\\`")

// forMan converts a help text to Markdown, in which indented text stays as it is.
func forMan(text string) string {
	var b strings.Builder
	indented := false
	for line := range strings.Lines(text) {
		was := indented
		indented = strings.HasPrefix(line, "  ")
		if indented != was {
			b.WriteByte('\n')
		}
		if indented {
			b.WriteString("    " + line)
		} else {
			b.WriteString(special.Replace(line))
		}
	}
	return b.String()
}
