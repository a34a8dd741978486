package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call of pawl in a block of a page: at the beginning of a line or behind a prompt, a
// separator, or the path of it; in YAML as a list.
var (
	fenced  = regexp.MustCompile("(?s)```(console|bash|ini|yaml)?\n(.*?)```")
	inShell = regexp.MustCompile(`(?m)(?:^\$ |[;&(] ?(?:exec )?|=/usr/bin/|[A-Z]+=\S+ )pawl ([a-z][^;&|\n#>)]*)`)
	inYAML  = regexp.MustCompile(`\[pawl, ([^\]]*)\]`)
)

// Every command that a page shows is one that there is, with flags that it has.
func TestCommandsInPagesAreCommands(t *testing.T) {
	t.Parallel()
	found := 0
	check := func(page string, args []string) {
		found++
		c, rest, err := newRoot().Find(args)
		if !assert.NoError(t, err, "%s: pawl %s", page, args) || len(rest) > 0 && rest[0] == "--help" {
			return
		}
		own := rest
		if i := slices.Index(rest, "--"); i == len(rest)-1 && i >= 0 { // the block's pattern has cut off the command
			own = rest[:i]
		}
		assert.NoError(t, c.ParseFlags(own), "%s: pawl %s", page, args)
		if c.Args != nil {
			assert.NoError(t, c.ValidateArgs(c.Flags().Args()), "%s: pawl %s", page, args)
		}
	}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			for _, m := range inShell.FindAllStringSubmatch(block[2], -1) {
				check(path, strings.Fields(strings.NewReplacer(`"`, "", "$$", "1").Replace(m[1])))
			}
			for _, m := range inYAML.FindAllStringSubmatch(block[2], -1) {
				check(path, strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", "))
			}
		}
		return err
	}))
	assert.Greater(t, found, 20)
}

var inProse = regexp.MustCompile("`pawl ([a-z][^`]*)`")

// And what stands between the words of a page has a subcommand that there is, and its flags;
// arguments it may leave out.
func TestCommandsInSentencesAreCommands(t *testing.T) {
	t.Parallel()
	root, found := filepath.Join("..", ".."), 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range inProse.FindAllStringSubmatch(string(text), -1) {
			found++
			args := strings.Fields(strings.NewReplacer("…", "", "[", "", "]", "", `"`, "", " N ", " 1 ").Replace(m[1]))
			c, rest, err := newRoot().Find(args)
			if !assert.NoError(t, err, "%s: %s", path, m[0]) || slices.Contains(rest, "--help") {
				continue
			}
			if err := c.ParseFlags(rest); err != nil { // a flag that is named without its value
				assert.ErrorContains(t, err, "flag needs an argument: "+rest[len(rest)-1], "%s: %s", path, m[0])
			}
		}
		return err
	}))
	assert.Greater(t, found, 50)
}

// The tutorial, as a reader does it, but for the port, and with the program built before it
// is run. Each part compiles for itself, side by side with the others.
func TestTheTutorialIsAsItSays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/start/tutorial.md")
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	var lines []string
	for _, l := range shellLines("tutorial.md", string(text)) {
		lines = append(lines, l.text)
	}
	require.Len(t, lines, 9)
	require.Equal(t, []string{"go install ./cmd/pawl", "pawl dev"}, lines[:2])
	require.Equal(t, []string{"go mod tidy", "go run ."}, lines[5:7])
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	assert.Contains(t, string(readme), "\n$ "+lines[4]+"\n$ "+lines[5]+"\n", "the README has the same commands")

	runs := func(t *testing.T, in string, lines ...string) string {
		script := exec.Command("bash", "-ec", strings.Join(lines, "\n"))
		script.Dir = in
		script.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-ldflags=-w", "GOBIN="+filepath.Join(in, "bin"))
		out, err := script.CombinedOutput()
		require.NoError(t, err, "%s\n%s", lines, out)
		return string(out)
	}
	// module is where the reader is: a module that was made beside a clone.
	module := func(t *testing.T) string {
		parent := t.TempDir()
		require.NoError(t, os.Symlink(root, filepath.Join(parent, "pawl")))
		clone := filepath.Join(parent, "clone")
		require.NoError(t, os.Mkdir(clone, 0o755))
		runs(t, clone, lines[2:5]...)
		return filepath.Join(parent, "tutorial")
	}
	// keeps has go find what it compiled of pawl the last time: by its path, and the page's is new at each run.
	keeps := "sed -i 's|=> \\.\\./pawl|=> " + root + "|' go.mod"
	t.Run("the command", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		runs(t, dir, "cd "+root, lines[0])
		assert.Contains(t, runs(t, dir, "bin/pawl --version"), "pawl version ")
	})
	t.Run("the program", func(t *testing.T) {
		t.Parallel()
		testTheTutorialsProgram(t, string(text), func(source string) string {
			dir := module(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644))
			runs(t, dir, lines[5], keeps, "go build -o program .")
			return filepath.Join(dir, "program")
		})
	})
	t.Run("the modules of other pages", func(t *testing.T) {
		t.Parallel()
		dir := module(t)
		var modules []string
		for _, page := range []string{"libraries.md", "observability.md"} {
			text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", page))
			require.NoError(t, err)
			commands := shellLines(page, string(text))
			require.Len(t, commands, 1, page)
			modules = append(modules, commands[0].text)
		}
		// A package that is no program need not be linked.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "library.go"), []byte(`package library

import (
	"github.com/pawl-locks/pawl/adapters/pawlgocron"
	"github.com/pawl-locks/pawl/observe/prom"
)

func init() {
	pawlgocron.NewLocker(nil, pawlgocron.LockerOptions{})
	prom.New(prom.Options{})
}
`), 0o644))
		runs(t, dir, append(modules, lines[5], keeps, "go build ./...")...)
	})
}

// testTheTutorialsProgram runs the page's program, which build makes of its source.
func testTheTutorialsProgram(t *testing.T, text string, build func(source string) string) {
	source := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(text)
	require.NotNil(t, source)
	dev := begin(t, "", "dev", "--port", "0")
	serving := servesOn.FindStringSubmatch(next(t, dev.lines()))
	require.NotNil(t, serving)
	program := beginWith(t, serving[1], build(strings.ReplaceAll(source[1], "127.0.0.1:2379", serving[1])))
	says := program.lines()
	assert.Regexp(t, `^holding with token \d+$`, next(t, says))
	assert.Equal(t, "first write: <nil>", next(t, says))
	second := begin(t, serving[1], "lock", "--wait", "2", "report", "--", "echo", "my turn")
	assert.Equal(t, 124, second.code(t))
	assert.Contains(t, second.stderr.String(), "is held by")
	assert.Equal(t, 0, begin(t, serving[1], "break", "--yes", "report").code(t))
	for range 2 { // what the page prints, but for the lease
		line := regexp.MustCompile(`[0-9a-f]+-1"`).ReplaceAllString(next(t, says), `694d8d2b6c1e3a05-1"`)
		assert.True(t, strings.Contains(text, "\n"+line+"\n"), line)
	}
	assert.Equal(t, 0, program.code(t))
	third := begin(t, serving[1], "lock", "report", "--", "echo", "my turn")
	assert.Equal(t, "my turn", next(t, third.lines()))
	assert.Equal(t, 0, third.code(t))
}
