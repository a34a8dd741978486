package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// TestMain makes this test binary the pawl that scripts and tests run, by
// that name.
func TestMain(m *testing.M) {
	if !strings.Contains("pawl pager worker catcher closer", filepath.Base(os.Args[0])) && signal.Ignored(os.Interrupt) {
		// As in the background of a script. What this process catches, those that
		// it starts begin with as usual.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, unix.SIGQUIT)
	}
	testscript.Main(allTests{m}, map[string]func(){
		"pawl": func() {
			if within, err := time.ParseDuration(os.Getenv(awareVariable)); err == nil {
				supervise.AwareWithin = within
			}
			ui.CloseWithin = testscale.Hang // so that a stream that is broken off was never ended, and the machine is not just slow
			os.Exit(cli.Run(patient(newRoot()), os.Args[1:]))
		},
		"pager":   testPager,
		"worker":  testWorker,
		"catcher": testCatcher,
		"closer":  testCloser,
	})
}

// testCloser becomes its arguments, without what it has inherited, as sudo does, and Python's subprocess.
func testCloser() {
	for fd := 3; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = unix.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// awareVariable holds how long a command may take to catch the signal of --on-wanted before pawl says so.
const awareVariable = "TEST_AWARE_WITHIN"

// dialVariable holds how long a pawl waits for the first answer if no --dial-timeout is given.
const dialVariable = "TEST_DIAL_TIMEOUT"

// patient is root with the --dial-timeout that a test wants: on a busy machine a server that is there
// may take longer to answer than a user waits for one.
func patient(root *cobra.Command) *cobra.Command {
	for _, c := range root.Commands() {
		if f := c.Flags().Lookup("dial-timeout"); f != nil && os.Getenv(dialVariable) != "" {
			_ = f.Value.Set(os.Getenv(dialVariable)) // it is a duration
		}
	}
	return root
}

// TestScripts runs each script of testdata/script against a separate real etcd server, because they
// run side by side, and use the same names.
func TestScripts(t *testing.T) {
	t.Parallel()
	kv := func(ts *testscript.TestScript) pb.KVClient {
		return pb.NewKVClient(ts.Value(serverKey{}).(*etcdtest.Server).Conn(t))
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			s := etcdtest.Start(t)
			env.Values[serverKey{}] = s
			env.Setenv("ETCDCTL_ENDPOINTS", s.Addr())
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv(dialVariable, testscale.Hang.String())
			env.Defer(func() { requireNothingLeft(t, s) })
			return nil
		},
		RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"del": func(ts *testscript.TestScript, _ bool, args []string) { // KEY
				_, err := kv(ts).DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(args[0])})
				ts.Check(err)
			},
			"put": func(ts *testscript.TestScript, _ bool, args []string) { // KEY VALUE, without a lease
				_, err := kv(ts).Put(context.Background(), &pb.PutRequest{Key: []byte(args[0]), Value: []byte(args[1])})
				ts.Check(err)
			},
		},
	})
}

// serverKey is where a script's values hold its server.
type serverKey struct{}

// requireNothingLeft fails unless every key and every lease goes: what was sent before a process ended may
// still be under way. It renews the leases meanwhile, so that none expires.
func requireNothingLeft(t *testing.T, s *etcdtest.Server) {
	t.Helper()
	ctx, conn := context.Background(), s.Conn(t)
	client := pb.NewLeaseClient(conn)
	renewals, err := client.LeaseKeepAlive(t.Context())
	require.NoError(t, err)
	testscale.Await(t, func() bool {
		resp, err := client.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		require.NoError(t, err)
		for _, l := range resp.Leases {
			require.NoError(t, renewals.Send(&pb.LeaseKeepAliveRequest{ID: l.ID}))
			_, err := renewals.Recv()
			require.NoError(t, err)
		}
		return len(resp.Leases) == 0
	}, "a lease was left to expire")
	keys, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, KeysOnly: true})
	require.NoError(t, err)
	assert.Empty(t, keys.Kvs)
}

// program is a pawl under way.
type program struct {
	cmd    *exec.Cmd
	stdout io.Reader
	tmp    string // its TMPDIR
	stderr *syncbuffer.Buffer
}

// begin starts pawl with args; whatever happens it is gone at the test's end.
func begin(t *testing.T, endpoint string, args ...string) *program {
	t.Helper()
	return beginWith(t, endpoint, "pawl", args...)
}

// beginWith starts another program, which can start pawl.
func beginWith(t *testing.T, endpoint, name string, args ...string) *program {
	t.Helper()
	return beginAs(t, os.Geteuid(), endpoint, name, args...)
}

// beginAs starts a program as a user.
func beginAs(t *testing.T, user int, endpoint, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(name, args...), stderr: new(syncbuffer.Buffer), tmp: t.TempDir()}
	p.cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+endpoint, "TMPDIR="+p.tmp)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // never in a terminal's foreground
	if user != os.Geteuid() {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
		require.NoError(t, os.Chown(p.tmp, user, user))
	}
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdout = out
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("stderr of %v: %s", args, p.stderr)
		}
	})
	return p
}

// code waits for the end of p and returns its exit code.
func (p *program) code(t *testing.T) int {
	t.Helper()
	_, _ = io.Copy(io.Discard, p.stdout)
	_ = p.cmd.Wait()
	t.Logf("stderr: %s", p.stderr)
	return p.cmd.ProcessState.ExitCode()
}

// eventually waits for ok, which is to become true.
func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	testscale.Await(t, ok, what)
}
