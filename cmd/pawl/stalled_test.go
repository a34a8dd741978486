package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

const ctrlS = "\x13"

// fullPipe is the end of a pipe that nobody reads, and that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	err := unix.Pipe2(fds[:], unix.O_CLOEXEC)
	require.NoError(t, err)
	r, w := os.NewFile(uintptr(fds[0]), "nobody reads"), os.NewFile(uintptr(fds[1]), "full")
	require.NoError(t, unix.SetNonblock(fds[1], true))
	for err == nil {
		_, err = unix.Write(fds[1], make([]byte, 64))
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	require.NoError(t, unix.SetNonblock(fds[1], false))
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return w
}

func TestNobodyHasToReadWhatPawlReports(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"lock":           {"lock", "-v", "a"},
		"lock, JSON":     {"lock", "--json", "a"},
		"lock -n":        {"lock", "-v", "-n", "a"},
		"elect":          {"elect", "-v", "a", "me"},
		"elect, JSON":    {"elect", "--json", "a", "me"},
		"a lock alone":   {"lock", "-v", "a"},
		"an elect alone": {"elect", "-v", "a", "me"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := etcdtest.Start(t)
			p := exec.Command("pawl", args...)
			p.Dir = t.TempDir()
			alone := strings.Contains(name, "alone")
			if !alone {
				p.Args = append(p.Args, "--", "sh", "-c", "echo $$ >started; exec sleep 1000")
			} else {
				p.Stdout = fullPipe(t)
			}
			p.Stderr = fullPipe(t)
			p.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+s.Addr())
			require.NoError(t, p.Start())
			t.Cleanup(func() { _ = p.Process.Kill() })
			if alone {
				eventually(t, func() bool { return countKeys(t, s) == 2 }, "it does not hold")
			} else {
				eventually(t, func() bool { _, err := os.Stat(filepath.Join(p.Dir, "started")); return err == nil }, "the command is not started")
			}
			require.NoError(t, p.Process.Signal(unix.SIGTERM))
			var exit *exec.ExitError
			require.ErrorAs(t, p.Wait(), &exit)
			if alone { // what it had to say is lost, unless the signal came before it held
				assert.Contains(t, []int{125, 143}, exit.ExitCode())
			} else {
				assert.Equal(t, 143, exit.ExitCode())
			}
			requireNothingLeft(t, s)
		})
	}
}

// A terminal that Ctrl-S has stopped, or whose ssh hangs.
func TestAStoppedTerminalHoldsUpNoLock(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock -v wait", "elect -v wait me"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			holder := begin(t, etcd.Addr(), "lock", "wait", "--", "sh", "-c", "echo held; exec sleep 1000")
			s := startTerminal(t, etcd, "sh", "-c", `until test -e go; do sleep 0.05; done; exec pawl `+kind+` -- sh -c 'echo $$ >command; exec sleep 1000'`)
			next(t, holder.lines())
			s.press(ctrlS)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
			eventually(t, func() bool { return countKeys(t, etcd) == 4 }, "it does not queue")
			require.NoError(t, holder.cmd.Process.Signal(unix.SIGTERM))
			s.file("command")
			require.NoError(t, s.cmd.Process.Signal(unix.SIGTERM))
			_ = s.cmd.Wait()
			assert.Equal(t, 143, s.cmd.ProcessState.ExitCode())
			requireNothingLeft(t, etcd)
		})
	}
}

// What shows something holds nothing, so nothing has to be done before it ends.
func TestACommandThatShowsEndsAtASignalAlthoughNobodyReads(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	k, err := keys.NewShards("", "jobs")
	require.NoError(t, err)
	_, err = pb.NewKVClient(s.Conn(t)).Put(t.Context(), &pb.PutRequest{Key: []byte(k.Queue(9_999).Prefix + "1")})
	require.NoError(t, err)
	for _, args := range [][]string{{"shards", "--watch", "--json", "jobs"}, {"shards", "--each", "jobs"}} {
		t.Run(args[1], func(t *testing.T) {
			t.Parallel()
			p := begin(t, s.Addr(), args...)
			_, err := io.ReadFull(p.stdout, make([]byte, 1)) // it writes more than fits into the pipe
			require.NoError(t, err)
			require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
			_ = p.cmd.Wait()
			assert.Equal(t, 143, p.cmd.ProcessState.ExitCode())
		})
	}
}
