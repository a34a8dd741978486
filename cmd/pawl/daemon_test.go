package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// builtIn is the directory of what buildPawld built, or "".
var builtIn string

// buildPawld builds the daemon of this checkout, once.
var buildPawld = sync.OnceValues(func() (path string, err error) {
	if builtIn, err = os.MkdirTemp("", "pawl-test"); err != nil {
		return "", err
	}
	path = filepath.Join(builtIn, "pawld")
	return path, launch.Build(context.Background(), path, "cmd/pawld", "-tags", "small", "-ldflags=-w")
})

// sideBySide is how many tests run at a time. Most of them wait for processes and leases, and have
// a server, a directory and, if they want one, a terminal to themselves.
const sideBySide = 12

// allTests are the tests, after which what buildPawld built is removed.
type allTests struct{ *testing.M }

// Run implements testscript.TestingM.
func (all allTests) Run() int {
	testscale.SideBySide(sideBySide)
	code := all.M.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	return code
}

// A pawld is a daemon under way, on a socket.
type pawld struct {
	cmd    *exec.Cmd
	socket string
	stderr *syncbuffer.Buffer
}

// startPawld starts one, and returns when its socket is there.
func startPawld(t *testing.T, endpoint string, args ...string) *pawld {
	t.Helper()
	path, err := buildPawld()
	require.NoError(t, err)
	p := &pawld{socket: launch.Socket(t), stderr: new(syncbuffer.Buffer)}
	p.cmd = exec.Command(path, append([]string{"--endpoints", endpoint, "--socket", p.socket}, args...)...)
	p.cmd.Stderr = p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Log(p.stderr)
		}
	})
	eventually(t, func() bool { return launch.Listens(p.socket) }, "it does not serve")
	return p
}

// askDoctor runs pawl doctor, which is in no hurry, and returns what it says.
func askDoctor(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	p := begin(t, "127.0.0.1:1", append([]string{"doctor", "--dial-timeout", testscale.Hang.String()}, args...)...)
	said, code = p.all(), p.code(t)
	return said + p.stderr.String(), code
}

// notReady is what pawl doctor says, with --json or without.
var notReady = regexp.MustCompile(`wrong ready |"check":"ready","status":"wrong"`)

// examine runs pawl doctor on a daemon in which nothing is wrong, again if etcd has not answered that in the
// 2 s that it waits for it.
func examine(t *testing.T, args ...string) (said string) {
	t.Helper()
	code := 0
	eventually(t, func() bool {
		said, code = askDoctor(t, args...)
		return !notReady.MatchString(said)
	}, "it is not ready")
	assert.Equal(t, 0, code, said)
	return said
}

func TestTheDoctorFindsADaemonInOrder(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := startPawld(t, s.Addr(), "--health", "127.0.0.1:0")
	p.awaitReady(t)
	said := examine(t, "--daemon", p.socket)
	for _, want := range []string{
		`(?m)^ok    socket     \S+: user \S+ and group \S+ may connect$`,
		`(?m)^ok    live       answers in `,
		`(?m)^ok    ready      can acquire locks$`,
		`0 wrong\n$`,
	} {
		assert.Regexp(t, want, said)
	}
	said = examine(t, "--daemon", p.socket, "--json")
	assert.Contains(t, said, `{"check":"ready","status":"ok","says":"can acquire locks"}`)
}

// A pawld at a limit is not one that does not answer, or that does not know this user.
func TestTheDoctorSaysThatADaemonIsAtALimit(t *testing.T) {
	t.Parallel()
	p := startPawld(t, etcdtest.Start(t).Addr(), "--max-connections", "6", "--max-calls", "2", "--max-sessions", "1")
	eventually(t, func() bool {
		for range 3 { // all that one user may have; one is refused while an older one is still counted
			c, err := net.Dial("unix", p.socket)
			if err != nil {
				return false
			}
			t.Cleanup(func() { _ = c.Close() })
		}
		said, code := askDoctor(t, "--daemon", p.socket)
		return code == cli.ExitWrong && regexp.MustCompile(`wrong live       a limit is reached: .*\n +→ see its log: .* raise --max-connections`).MatchString(said)
	}, "it does not say so")
}

func TestTheDoctorSaysThatADaemonHasNoEtcd(t *testing.T) {
	t.Parallel()
	p := startPawld(t, "127.0.0.1:1")
	said, code := askDoctor(t, "--daemon", p.socket)
	assert.Equal(t, cli.ExitWrong, code)
	assert.Regexp(t, `ok    live .*\n(.*\n)?wrong ready      cannot acquire locks: etcd does not answer it`, said)
}

var healthAt = regexp.MustCompile(`msg=health address=(\S+)`)

// health is the URL of --health, as it is logged.
func (p *pawld) health(t *testing.T) string {
	t.Helper()
	eventually(t, func() bool { return healthAt.MatchString(p.stderr.String()) }, "it serves no health")
	return "http://" + healthAt.FindStringSubmatch(p.stderr.String())[1]
}

// awaitReady waits until p, which has --health, can acquire locks.
func (p *pawld) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		resp, err := http.Get(p.health(t) + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}, "it is not ready")
}

// What is wrong with a socket, and what to do.
func TestTheDoctorExaminesADaemonsSocket(t *testing.T) {
	t.Parallel()
	said, code := askDoctor(t, "--daemon", "/no/such/socket")
	assert.Equal(t, cli.ExitWrong, code)
	assert.Regexp(t, `wrong socket     /no/such/socket: does not exist\n +→ start pawld`, said)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	said, code = askDoctor(t, "--daemon", file)
	assert.Equal(t, cli.ExitWrong, code)
	assert.Contains(t, said, "is no socket")

	p := startPawld(t, etcdtest.Start(t).Addr())
	require.NoError(t, os.Chmod(p.socket, 0o666))
	said = examine(t, "--daemon", p.socket)
	assert.Contains(t, said, "look  socket ")
	assert.Contains(t, said, "everybody on this machine may connect")
	require.NoError(t, os.Chmod(filepath.Dir(p.socket), 0o777))
	said, code = askDoctor(t, "--daemon", p.socket)
	assert.Equal(t, cli.ExitWrong, code)
	assert.Contains(t, said, "everybody may put another socket in its place")

	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	said, code = askDoctor(t, "--daemon", p.socket)
	assert.Equal(t, cli.ExitWrong, code)
	assert.Contains(t, said, "nobody serves it: pawld died")
}

func TestTheDoctorSaysWhoMayConnectToADaemon(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	t.Parallel()
	p := startPawld(t, etcdtest.Start(t).Addr())
	self, err := os.Executable()
	require.NoError(t, err)
	pawl := filepath.Join(filepath.Dir(p.socket), "pawl") // where another user may execute it
	require.NoError(t, exec.Command("cp", self, pawl).Run())
	other := beginAs(t, 12345, "", pawl, "doctor", "--daemon", p.socket)
	said := other.all()
	assert.Equal(t, cli.ExitWrong, other.code(t))
	assert.Regexp(t, `user 12345 may not connect: user root and group root may\n +→ add this user to that group`, said)
}

func TestBadArgumentsForADaemonAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--daemon=":                                    `--daemon is given, and empty`,
		"--daemon 127.0.0.1:8377":                      `--daemon "127.0.0.1:8377": want the path of pawld's socket`,
		"--daemon https://a:1":                         `--daemon "https://a:1": want`,
		"--daemon http://a:1":                          `--daemon "http://a:1": want`,
		"--daemon /run/s orders/":                      `"orders/": a PREFIX is for the cluster, and --daemon is given`,
		"--daemon /run/s --endpoints a:1":              "--endpoints is for the cluster, and --daemon is given: want one",
		"--daemon /run/s --namespace x --dial-timeout": "flag needs an argument",
		"--daemon /run/s --embed":                      "--embed is for the cluster",
		"--daemon /run/s a b":                          `"b" is one too many`,
	} {
		said, code := askDoctor(t, strings.Fields(args)...)
		assert.Equal(t, cli.ExitUsage, code, args)
		assert.Contains(t, said, want, args)
	}
}
