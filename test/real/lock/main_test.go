package lock_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// role is the environment variable that makes the test binary something else.
const role = "PAWL_LOCK_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		os.Exit(m.Run()) // a child: its one test is named on its command line
	}
	goleak.VerifyTestMain(m)
}

// TestRoleServer is not a test: it is the server of another process.
func TestRoleServer(t *testing.T) {
	if os.Getenv(role) != "server" {
		t.Skip("the role of a child process")
	}
	s := etcdtest.StartWith(t, etcdtest.Options{Heartbeat: 100 * time.Millisecond})
	fmt.Printf("endpoint %s\n", s.Endpoints()[0])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// process is a child that runs this binary as a role, until the test's end.
type process struct {
	*os.Process
	lines *bufio.Scanner // what it says
}

// ownGroup has a process that is to be stopped run in a process group of its own, where there are such, so that
// no other process of the tests' group wakes it when it ends.
var ownGroup = func(*exec.Cmd) {}

func child(t testing.TB, as string, env ...string) *process {
	t.Helper()
	name := "TestRole" + strings.ToUpper(as[:1]) + as[1:]
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	cmd.Stderr = os.Stderr
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return &process{cmd.Process, bufio.NewScanner(out)}
}

// said waits for the next line that begins with word and returns its rest; "":
// the process has ended.
func (p *process) said(word string) string {
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), word+" "); ok {
			return rest
		}
	}
	return ""
}

// handOver prints the session's handle, for the process that goes on with it.
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

// mutex is the name that most tests lock, on s.
func mutex(s *pawl.Session) *lock.Mutex { return lock.New(s, "name", lock.Options{}) }

func semaphore(s pawl.Sessions, limit int) *lock.Semaphore {
	return lock.NewSemaphore(s, "name", limit, lock.Options{})
}

func waitFor(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
