package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

var consoles = regexp.MustCompile("(?sm)^```console\n(.*?)^```")

// called is the console of a page that calls pawld with curl.
func called(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, b := range consoles.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(b[1], "curl ") {
			return strings.ReplaceAll("\n"+strings.ReplaceAll(b[1], "\\\n", " "), "\n$ ", "\n")
		}
	}
	t.Fatal(page + " has no call of curl")
	return ""
}

// The curl commands of pages are run as they are printed, except for the socket's path.
func TestCommandsOfPagesRun(t *testing.T) {
	t.Parallel()
	for page, want := range map[string][]string{
		"../../docs/how-to/pawld.md": {`"state":"HELD","lock"`, `{"locks"`, `"state":"HELD"`, `"released":true`},
		"../../README.md":            {`"state":"HELD","lock"`},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			socket := launch.Socket(t)
			cmd := exec.Command(os.Args[0], "--embed", "--socket", socket)
			cmd.Env = []string{"TMPDIR=" + t.TempDir()} // it is killed, and leaves etcd's data
			p := beginCmd(t, cmd)
			p.http = unixClient(socket)
			p.waitFor(socket)
			p.warm()
			script := strings.ReplaceAll(called(t, page), "/tmp/pawld.sock", socket)
			script = regexp.MustCompile(`(?m)^go run .*$`).ReplaceAllString(script, "")
			out, err := exec.Command("bash", "-ec", script).CombinedOutput()
			require.NoError(t, err, "%s\n%s", script, out)
			rest := strings.ReplaceAll(string(out), " ", "") // of which protojson puts some by chance
			for _, part := range want {
				_, after, found := strings.Cut(rest, part)
				require.True(t, found, "no %s in %s of %s", part, rest, out)
				rest = after
			}
			assert.NotContains(t, string(out), `"code"`)
		})
	}
}

var programs = regexp.MustCompile("(?sm)^```(python|js)\n(.*?)^```")

// The programs of pages for Python and Node run as they are printed, except for the socket's path.
func TestProgramsOfPagesRun(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../clients/python")
	require.NoError(t, err)
	node, err := filepath.Abs("../../clients/node")
	require.NoError(t, err)
	p := start(t, ofShared(t), "")
	for _, page := range []string{"../../clients/python/README.md", "../../clients/node/README.md", "../../docs/how-to/cancellation.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		found := programs.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found, page)
		for i, b := range found {
			t.Run(fmt.Sprint(page, i), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				require.NoError(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o755))
				require.NoError(t, os.Symlink(node, filepath.Join(dir, "node_modules", "pawld")))
				file := filepath.Join(dir, "program."+b[1])
				require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(b[2], "/tmp/pawld.sock", p.socket)), 0o644))
				run := exec.Command(map[string]string{"python": "python3", "js": "node"}[b[1]], file)
				run.Env = append(os.Environ(), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1")
				out, err := run.CombinedOutput()
				require.NoError(t, err, "%s\n%s", b[2], out)
				assert.Contains(t, string(out), "token")
			})
		}
	}
}
