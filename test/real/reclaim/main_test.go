//go:build linux

// Package reclaim_test shows, with processes that die in every way, what proves a death and what does not.
package reclaim_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// role is the environment variable that makes the test binary something else.
const role = "PAWL_RECLAIM_TEST_ROLE"

var roles = map[string]func(args []string) error{"publisher": publisher, "mounts": mounts, "worker": worker}

func TestMain(m *testing.M) {
	if as := os.Getenv(role); as != "" {
		if err := roles[as](os.Args[1:]); err != nil {
			fmt.Printf("error %v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// process is a child in a role.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    io.WriteCloser
}

// start starts a child, which is dead and waited for at the test's end.
func start(t testing.TB, attr syscall.SysProcAttr, as string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), role+"="+as)
	p.cmd.Stderr = os.Stderr
	attr.Setpgid = true
	p.cmd.SysProcAttr = &attr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	if err := p.cmd.Start(); err != nil {
		if attr.Cloneflags != 0 {
			t.Skipf("no namespaces here: %v", err)
		}
		require.NoError(t, err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
		_ = p.cmd.Wait()
	})
	return p
}

// said waits for a line that begins with word, and returns its rest.
func (p *process) said(word string) string {
	p.t.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), word); ok {
			return strings.TrimSpace(rest)
		}
		p.t.Log(p.lines.Text())
	}
	require.Fail(p.t, "the child has ended", "before it said %q", word)
	return ""
}

// does tells the child to do something, and waits until it has.
func (p *process) does(what string) string {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, what)
	require.NoError(p.t, err)
	return p.said("done")
}

func (p *process) signal(s unix.Signal) {
	p.t.Helper()
	require.NoError(p.t, unix.Kill(p.cmd.Process.Pid, s))
}

// kill kills the child, and waits for its death.
func (p *process) kill() {
	p.t.Helper()
	p.signal(unix.SIGKILL)
	p.dies()
}

// dies waits for the child's death, and leaves it a zombie.
func (p *process) dies() {
	p.t.Helper()
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			require.NoError(p.t, err)
			return
		}
	}
}

// newPath is a new directory on a file system on which deaths can be proved.
func newPath(t testing.TB) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/dev/shm"} {
		path, err := os.MkdirTemp(base, "reclaim")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(path) })
		if _, err = reclaim.Open(path); err == nil {
			return path
		}
		t.Log(err)
	}
	t.Skip("neither the temporary directory nor /dev/shm is on tmpfs, ext4, xfs or btrfs")
	return ""
}

func open(t testing.TB, path string) *reclaim.Dir {
	t.Helper()
	d, err := reclaim.Open(path)
	require.NoError(t, err)
	return d
}

// left is what every publisher leaves, and name its file.
var left = reclaim.Left{Remains: session.Remains{Cluster: 1, Lease: 7, Create: 2, Mod: 3}, Key: "//pawl/session/7", Owner: "ann"}

const name = "0000000000000007-3"

// alive fails if somebody can prove that the publisher is dead.
func alive(t testing.TB, path string) {
	t.Helper()
	_, err := open(t, path).Claim(name)
	require.ErrorIs(t, err, reclaim.ErrAlive)
}

// dead waits for the proof.
func dead(t testing.TB, path string) {
	t.Helper()
	d := open(t, path)
	testscale.Await(t, func() bool {
		c, err := d.Claim(name)
		if err != nil {
			require.ErrorIs(t, err, reclaim.ErrAlive)
			return false
		}
		c.LetGo()
		return true
	}, "the proof of death")
}

// publisher leaves a file in the directory that it is given, and does what it is told.
func publisher(args []string) error {
	d, err := reclaim.Open(args[0])
	if err != nil {
		return err
	}
	publish := d.Publish
	if len(args) > 1 && args[1] == "inherit" {
		publish = d.PublishFor
	}
	f, err := publish(left)
	if err != nil {
		return err
	}
	fmt.Println("published")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		var said any
		switch words[0] {
		case "close":
			said, err = closeAll(args[0])
		case "fork":
			said = fork(words[1] == "close", words[2] == "stay")
		case "check":
			lost, cerr := f.Check()
			said = fmt.Sprintln(lost, cerr)
		case "remove":
			err = f.Remove()
		case "exec":
			return syscall.Exec("/bin/sh", []string{"sh", "-c", "echo done; exec cat"}, os.Environ())
		}
		if err != nil {
			return err
		}
		fmt.Println("done", said)
	}
	return nil
}

// closeAll closes every descriptor of a file in dir, as a stray close does, twice.
func closeAll(dir string) (n int, err error) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && filepath.Dir(to) == dir {
			var number int
			fmt.Sscan(fd.Name(), &number)
			_, _ = unix.Close(number), unix.Close(number)
			n++
		}
	}
	return n, nil
}

// fork makes a child with this process's memory, which closes all its descriptors, or none, and ends at once,
// or stays. It returns the child's number. The child must not use Go's runtime.
func fork(closes, stays bool) uintptr {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid
	}
	if closes {
		for fd := uintptr(0); fd < 256; fd++ {
			syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
		}
	}
	for stays {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// unlocked lets go of a file's lock, as the death of this process would.
func unlocked(t testing.TB, path string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if words := strings.Fields(line); words[len(words)-1] == path {
			var from, to uintptr
			_, err := fmt.Sscanf(words[0], "%x-%x", &from, &to)
			require.NoError(t, err)
			// Something else takes its place, so that nothing is there by chance when the File unmaps it.
			_, _, errno := unix.Syscall6(unix.SYS_MMAP, from, to-from, unix.PROT_NONE, unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
			require.Zero(t, errno)
			return
		}
	}
	require.Fail(t, "nobody has mapped it", path)
}
