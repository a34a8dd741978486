package lock_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// role is the environment variable that makes the test binary something else.
const role = "PAWL_LOCK_TEST_ROLE"

// sideBySide is how many tests run at a time. Most of them wait for a process or a lease, and use
// separate names.
const sideBySide = 12

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		os.Exit(m.Run()) // a child: its one test is named on its command line
	}
	testscale.SideBySide(sideBySide)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if p := server.Load(); p != nil {
			p.stop()
		}
		os.Exit(code)
	}))
}

// TestRoleServer is not a test: it is the server of another process.
func TestRoleServer(t *testing.T) {
	if os.Getenv(role) != "server" {
		t.Skip("the role of a child process")
	}
	s := etcdtest.Start(t)
	fmt.Printf("endpoint %s\n", s.Endpoints()[0])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// process is a child that runs this binary as a role.
type process struct {
	*os.Process
	lines *bufio.Scanner // what it says
	stop  func()         // ends its input, and waits for its end
}

// ownGroup makes a process that is to be stopped run in a separate process group, where there are such,
// so that no other process of the tests' group wakes it when it ends.
var ownGroup = func(*exec.Cmd) {}

func start(as string, env ...string) (*process, error) {
	name := "TestRole" + strings.ToUpper(as[:1]) + as[1:]
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	cmd.Stderr = os.Stderr
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd.Process, bufio.NewScanner(out), func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}}, nil
}

// child starts a process that lasts until the test's end.
func child(t testing.TB, as string, env ...string) *process {
	t.Helper()
	p, err := start(as, env...)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	return p
}

// server is the process of the etcd that all tests share, once one has asked for it.
var server atomic.Pointer[process]

var sharedEndpoint = sync.OnceValues(func() (string, error) {
	p, err := start("server")
	if err != nil {
		return "", err
	}
	server.Store(p)
	endpoint := p.said("endpoint")
	if endpoint == "" {
		return "", errors.New("the server's process has ended")
	}
	return endpoint, nil
})

// realServer is the endpoint of the etcd that all tests share. It is a separate process, so that
// what it allocates is not counted here.
func realServer(t testing.TB) string {
	t.Helper()
	endpoint, err := sharedEndpoint()
	require.NoError(t, err)
	return endpoint
}

// said waits for the next line that begins with word and returns its rest. It returns "" if the
// process has ended, and then prints why a test of the process failed.
func (p *process) said(word string) string {
	var others strings.Builder
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), word+" "); ok {
			return rest
		}
		others.WriteString(p.lines.Text() + "\n")
	}
	if strings.Contains(others.String(), "--- FAIL") {
		fmt.Fprint(os.Stderr, others.String())
	}
	return ""
}

// handOver prints the session's handle, for the process that continues it.
func handOver(t *testing.T, s *pawl.Session) {
	t.Helper()
	handle, err := s.Detach().MarshalText()
	require.NoError(t, err)
	fmt.Printf("handle %s\n", handle)
}

// handedOver waits for the handle that p prints, and for p's end.
func (p *process) handedOver(t *testing.T) (handle lease.Handle) {
	t.Helper()
	require.NoError(t, handle.UnmarshalText([]byte(p.said("handle"))))
	require.Empty(t, p.said("anything"), "it has ended")
	return handle
}

// becomes waits until ok says true.
func becomes(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, testscale.Hang, 5*time.Millisecond, what)
}
