package lock_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bufio"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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

// child runs this binary as a role, until the test's end, and returns what it
// says on lines that begin with word.
func child(t testing.TB, as, word string, env ...string) (lines *bufio.Scanner, said func() string) {
	t.Helper()
	name := "TestRole" + strings.ToUpper(as[:1]) + as[1:]
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	cmd.Stderr = os.Stderr
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
	lines = bufio.NewScanner(out)
	return lines, func() string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), word+" "); ok {
				return rest
			}
		}
		return ""
	}
}
