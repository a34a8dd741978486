package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A shellLine is a command that a page shows: after a prompt, in a unit, in a crontab or
// in a manifest of Kubernetes.
type shellLine struct {
	page, text string
	shell      string // that it is for
}

// notRun are the beginnings of commands that TestCommandsInPagesRun leaves out, each with
// where it is run instead, or why nowhere.
var notRun = map[string]string{
	"sleep ":             "waits for what is not run here; test/peers/interop/etcdctl follows the page with five minutes",
	"pawl dev":           "serves until it is interrupted: TestTheTutorialIsAsItSays",
	"pawl ui":            "serves until it is interrupted: TestUIServesWhatIsHeldAndBreaksWithItsKey",
	"pawl top":           "wants a terminal: TestTopOnATerminal",
	"pawl watch":         "follows until it is interrupted: testdata/script",
	"pawl reap":          "goes on until it is interrupted: TestReapFreesWhatACommandHeldOnceAllOfItIsDead",
	"/usr/bin/pawl reap": "the same",
	"/usr/bin/pawl elect scheduler $(hostname) --reclaim-dir": "its directory is made by systemd: TestReapFreesWhatACommandHeldOnceAllOfItIsDead",
	"pawl break":         "needs a holder: testdata/script, TestTheTutorialIsAsItSays",
	"pawl doctor":        "its exit code is what it finds: testdata/script/doctor.txtar",
	"go ":                "builds and fetches: TestTheTutorialIsAsItSays, TestFirstProgramsRunAgainstPawlDev",
	"make ":              "builds: tools/release",
	"npm ":               "installs: TestTheClientsFirstProgramsRun runs what comes after it",
	"pip ":               "fetches what builds it: TestTheClientsFirstProgramsRun runs what comes after it",
	"mkdir ../tutorial":  "TestTheTutorialIsAsItSays",
	"until test -S ":     "waits for a daemon: TestTheClientsFirstProgramsRun runs what comes after it",
	"etcdctl ":           "etcd's own: test/peers/interop/etcdctl",
	"etcdutl ":           "etcd's own: test/peers/interop/etcdctl",
	"ETCDCTL_USER=":      "needs a cluster with users: test/peers/interop/etcdctl",
	"pawld ":             "TestPawldStartsAsItsPageSays",
	"call() ":            "cmd/pawld: TestCommandsOfPagesRun",
	"s=$(openssl":        "cmd/pawld: TestCommandsOfPagesRun",
	"printf '{":          "cmd/pawld: TestCommandsOfPagesRun",
	"echo '{\"session\"": "cmd/pawld: TestCommandsOfPagesRun",
}

// fails are commands that say something by their exit code, where nobody holds a lock.
var fails = map[string]int{
	"pawl show -q backup && echo busy":                               1,
	`test "$(pawl show --holder scheduler)" = "$(hostname)" && echo`: 1,
}

// others are the programs that pages have pawl run, and that no machine has.
var others = []string{"backup.sh", "report.sh", "deploy.sh", "nightly.sh", "export.sh", "import.sh", "transfer.sh", "scheduler", "nightly", "build", "push"}

var (
	block     = regexp.MustCompile("(?sm)^```(\\w*)\n(.*?)^```")
	execStart = regexp.MustCompile(`(?m)^ExecStart=(.*)$`)
	inCrontab = regexp.MustCompile(`(?m)^(?:\S+ +){5}(\. /etc/.*)$`)
	manifest  = regexp.MustCompile(`(?m)^ *command: \[(.*)\]$`)
	comment   = regexp.MustCompile(` +# .*$`)
)

// shellLines are all commands of a page, one each, though several stand on a line.
func shellLines(page, text string) (all []shellLine) {
	add := func(shell, line string) { all = append(all, shellLine{page, line, shell}) }
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		switch body := strings.ReplaceAll(b[2], "\\\n", " "); b[1] {
		case "console":
			for line := range strings.Lines(body) {
				if line, ok := strings.CutPrefix(strings.Replace(line, "# pawld", "$ pawld", 1), "$ "); ok { // root's prompt
					line = comment.ReplaceAllString(strings.TrimSpace(line), "")
					for part := range strings.SplitSeq(line, "; pawl ") {
						if part != line && !strings.HasPrefix(part, "pawl ") {
							part = "pawl " + part
						}
						add("bash", part)
					}
				}
			}
		case "bash":
			add("bash", body)
		case "ini":
			for _, m := range execStart.FindAllStringSubmatch(body, -1) {
				add("sh", strings.NewReplacer("%H", "$(hostname)", "$$", "$").Replace(m[1]))
			}
		case "yaml":
			for _, m := range manifest.FindAllStringSubmatch(body, -1) {
				add("sh", strings.NewReplacer(", ", " ", "$(POD_NAME)", "pod-0").Replace(m[1]))
			}
		case "":
			for _, m := range inCrontab.FindAllStringSubmatch(body, -1) {
				add("sh", m[1])
			}
		}
	}
	return all
}

// Every command that a page shows does what it is there for, on a real server, but for
// those that are named above with a reason.
func TestCommandsInPagesRun(t *testing.T) {
	t.Parallel()
	root, used, ran := filepath.Join("..", ".."), map[string]bool{}, 0
	var lines []shellLine
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, shellLines(path, string(text))...)
		return err
	}))
	server := etcdtest.Start(t)
	dir := t.TempDir()
	inDir := machine(t, dir, server.Addr())
	for _, l := range lines {
		if reason := whyNot(l.text, used); reason != "" {
			continue
		}
		ran++
		want := 0
		for begins, code := range fails {
			if strings.HasPrefix(l.text, begins) {
				want, used[begins] = code, true
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
		cmd := exec.CommandContext(ctx, l.shell, "-c", inDir.Replace(l.text))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+server.Addr(), "HOME="+dir, "TMPDIR="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		cancel()
		assert.Equal(t, want, cmd.ProcessState.ExitCode(), "%s: %s\n%v\n%s", l.page, l.text, err, out)
	}
	assert.Greater(t, ran, 15)
	for begins := range notRun {
		assert.True(t, used[begins], "no page has a command that begins %q", begins)
	}
	for begins := range fails {
		assert.True(t, used[begins], "no page has a command that begins %q", begins)
	}
}

// The units of the pages, as systemd reads them, but for the programs, which have to be there.
func TestUnitsInPagesAreSystemds(t *testing.T) {
	t.Parallel()
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	var text []byte
	for _, page := range []string{"systemd-and-cron.md", "reclaim.md"} {
		more, err := os.ReadFile(filepath.Join("../../docs/how-to", page))
		require.NoError(t, err)
		text = append(text, more...)
	}
	found := 0
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		if b[1] != "ini" {
			continue
		}
		found++
		text := strings.ReplaceAll(b[2], "/usr/bin/pawl ", os.Args[0]+" ")
		dir := t.TempDir()
		unit := filepath.Join(dir, "page.service")
		if strings.Contains(text, "[Timer]") {
			require.NoError(t, os.WriteFile(unit, []byte("[Service]\nType=oneshot\nExecStart=/bin/true\n"), 0o600))
			unit = filepath.Join(dir, "page.timer")
		}
		require.NoError(t, os.WriteFile(unit, []byte(text), 0o600))
		out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		assert.NotContains(t, string(out), unit, "%s", out)
	}
	assert.Equal(t, 6, found)
}

// The daemon of the page, but for the endpoints, the group and the paths.
func TestPawldStartsAsItsPageSays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/how-to/pawld.md")
	require.NoError(t, err)
	var words []string
	for _, l := range shellLines("pawld.md", string(text)) {
		if strings.HasPrefix(l.text, "pawld ") {
			words = strings.Fields(l.text)[1:]
		}
	}
	require.NotEmpty(t, words)
	group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	require.NoError(t, err)
	here := map[string]string{"--socket-group": group.Name, "--state-dir": t.TempDir(), "--health": "127.0.0.1:0"}
	require.Equal(t, "--endpoints", words[0])
	require.Len(t, strings.Split(words[1], ","), 3)
	words = words[2:]
	for i := 0; i < len(words); i += 2 {
		require.Contains(t, here, words[i])
		words[i+1] = here[words[i]]
	}
	p := startPawld(t, etcdtest.Start(t).Addr(), words...)
	p.awaitReady(t)
}

// The first programs of the clients' own pages, as they are printed but for the socket, with the
// client where pip and npm would put it.
func TestTheClientsFirstProgramsRun(t *testing.T) {
	t.Parallel()
	p := startPawld(t, etcdtest.Start(t).Addr())
	clients, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	for name, run := range map[string]struct{ language, file, interpreter, installed, from string }{
		"python": {"python", "main.py", "python3", "pawld", "python/pawld"},
		"node":   {"js", "main.js", "node", "node_modules/pawld", "node"},
	} {
		text, err := os.ReadFile(filepath.Join(clients, name, "README.md"))
		require.NoError(t, err)
		var source string
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			if b[1] == run.language && source == "" {
				source += strings.ReplaceAll(b[2], "/tmp/pawld.sock", p.socket)
			}
		}
		require.Contains(t, source, p.socket, name)
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, run.installed)), 0o755))
		require.NoError(t, os.Symlink(filepath.Join(clients, run.from), filepath.Join(dir, run.installed)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, run.file), []byte(source), 0o644))
		program := beginWith(t, "", run.interpreter, filepath.Join(dir, run.file))
		said := strings.Split(strings.TrimSpace(program.all()), "\n")
		assert.Equal(t, 0, program.code(t), name)
		require.Len(t, said, 10, name)
		assert.Regexp(t, `^part 9 with token \d+n?$`, said[9], name)
	}
}

// whyNot says why a command is not run, or "".
func whyNot(text string, used map[string]bool) string {
	for begins, reason := range notRun {
		if strings.HasPrefix(text, begins) {
			used[begins] = true
			return reason
		}
	}
	return ""
}

// writeProgram writes a script while no other test starts a process, which would for a moment
// have it open for writing too, and what is open for writing cannot be executed.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

// machine puts into dir what the machines of the pages have, and returns what leads there.
func machine(t *testing.T, dir, endpoint string) *strings.Replacer {
	t.Helper()
	for _, sub := range []string{"bin", ".local/share/man/man1", ".config/fish/completions"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for _, name := range others {
		for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, "bin", name)} {
			writeProgram(t, path, "#!/bin/sh\ntest -n \"$PAWL_TOKEN$1\" || test $(basename $0) = build -o $(basename $0) = push\n")
		}
	}
	defaults := filepath.Join(dir, "default")
	require.NoError(t, os.WriteFile(defaults, fmt.Appendf(nil, "ETCDCTL_ENDPOINTS=%s\n", endpoint), 0o644))
	pawl, err := exec.LookPath("pawl")
	require.NoError(t, err)
	pairs := []string{"/usr/bin/pawl", pawl, "/etc/default/pawl", defaults}
	for _, name := range slices.Sorted(slices.Values(others)) {
		pairs = append(pairs, "/usr/bin/"+name, filepath.Join(dir, "bin", name))
	}
	return strings.NewReplacer(pairs...)
}
