package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A shell is an interactive bash on a new terminal.
type shell struct {
	t       *testing.T
	etcd    *etcdtest.Server
	dir     string
	mark    string // in the environment of all that it starts
	tty     *os.File
	cmd     *exec.Cmd
	reading sync.WaitGroup
	mu      sync.Mutex
	out     []byte // what the terminal has shown
	read    int    // how much of it sees has found
}

// markVariable has the mark of a shell.
const markVariable = "PAWL_TEST_MARK"

func startShell(t *testing.T) *shell {
	t.Helper()
	return startTerminal(t, etcdtest.Start(t), "bash", "--norc", "--noprofile", "-i")
}

// startTerminal starts a program as the leader of a terminal's session. All that it
// starts is gone at the test's end.
func startTerminal(t *testing.T, etcd *etcdtest.Server, name string, args ...string) *shell {
	t.Helper()
	s := &shell{t: t, etcd: etcd, dir: t.TempDir(), mark: t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)}
	s.cmd = exec.Command(name, args...)
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+etcd.Addr(), "PS1=ready$ ", "TERM=dumb", "HISTFILE=", "TMPDIR="+s.dir, markVariable+"="+s.mark)
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // where the tests run under nohup, the shell does not
	tty, err := pty.Start(s.cmd)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(tty.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, tty.Close())
	require.NoError(t, unix.SetNonblock(fd, true)) // so that Close ends a Read
	s.tty = os.NewFile(uintptr(fd), "terminal")
	s.reading.Go(s.follow) // ends with the terminal
	t.Cleanup(func() {
		for len(s.marked("")) > 0 {
			for _, pid := range s.marked("") {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = s.cmd.Wait()
		_ = s.tty.Close()
		s.reading.Wait()
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", s.out)
		}
	})
	return s
}

func (s *shell) follow() {
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.out = append(s.out, buf[:n]...)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// types types a line.
func (s *shell) types(line string) { s.press(line + "\n") }

// press types keys.
func (s *shell) press(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.tty, keys)
	require.NoError(s.t, err)
}

// stops presses Ctrl-Z when the shell has given its job the terminal, and waits until it says
// that the job has stopped. A shell that continues a job says so a moment before it does that.
func (s *shell) stops() {
	s.t.Helper()
	eventually(s.t, func() bool {
		group := 0
		tty, err := s.tty.SyscallConn()
		require.NoError(s.t, err)
		require.NoError(s.t, tty.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }))
		return err == nil && group != s.cmd.Process.Pid
	}, "the job does not get the terminal")
	s.press(ctrlZ)
	s.sees("Stopped")
}

// Keys that the terminal makes signals of.
const ctrlC, ctrlZ, ctrlBackslash = "\x03", "\x1a", "\x1c"

// sees waits until the terminal shows text, after what it has seen before. What is
// typed is shown too: text is to be none of that.
func (s *shell) sees(text string) {
	s.t.Helper()
	eventually(s.t, func() bool { return s.shows(text) }, fmt.Sprintf("the terminal does not show %q", text))
}

// shows reports whether the terminal shows text after what was seen before.
func (s *shell) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := bytes.Index(s.out[s.read:], []byte(text))
	if i >= 0 {
		s.read += i + len(text)
	}
	return i >= 0
}

// reports waits until the shell, which does so before it prompts, says what has become
// of a job.
func (s *shell) reports(text string) {
	s.t.Helper()
	eventually(s.t, func() bool {
		s.types("")
		time.Sleep(100 * time.Millisecond)
		return s.has(text)
	}, "the shell does not report "+text)
	s.sees(text)
}

// has reports whether the terminal ever showed text.
func (s *shell) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.out, []byte(text))
}

// file waits until name is there, and returns what it holds.
func (s *shell) file(name string) string {
	s.t.Helper()
	var text []byte
	eventually(s.t, func() bool {
		text, _ = os.ReadFile(filepath.Join(s.dir, name))
		return len(text) > 0
	}, name+" is not written")
	return strings.TrimSpace(string(text))
}

// marked are the processes that the shell started, itself among them, whose command
// line, its words ended by zeros, begins so.
func (s *shell) marked(start string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, _ := os.ReadFile(name)
		if !bytes.Contains(env, []byte(markVariable+"="+s.mark)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(line, []byte(start)) && runs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processState is a process's state as ps shows it, or 0 if there is no process.
func processState(pid int) byte { return stateIn(fmt.Sprintf("/proc/%d", pid)) }

// stateIn is the state of the process, or of the thread, that has a directory in /proc.
func stateIn(dir string) byte {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	_, rest, ok := strings.Cut(string(stat), ") ")
	if err != nil || !ok {
		return 0
	}
	return rest[0]
}

// stands reports whether a process is stopped, with all of its threads. When its parent learns that it has
// stopped, it is; a shell learns that of pawl, whose command may still have a thread that waits for a CPU.
func stands(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		if stateIn(thread) != 'T' {
			return false
		}
	}
	return len(threads) > 0
}

// parentOf is a process's parent.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return parent
}

// pair are the processes of pawl above a command.
func pair(t *testing.T, command int) (guardian, holder int) {
	t.Helper()
	holder = parentOf(t, command)
	return parentOf(t, holder), holder
}

// acquire waits for a lock as another process would, and returns when it had it.
func acquire(t *testing.T, s *etcdtest.Server, name string) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{s.Addr()}})
	require.NoError(t, err)
	defer c.Close()
	session, err := c.Session(ctx)
	require.NoError(t, err)
	held, err := lock.New(session, name, lock.Options{}).Acquire(ctx)
	require.NoError(t, err)
	defer held.Release(ctx)
	return time.Now()
}

// busy reports whether a lock is another's.
func busy(t *testing.T, s *etcdtest.Server, name string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{s.Addr()}})
	require.NoError(t, err)
	defer c.Close()
	session, err := c.Session(ctx)
	require.NoError(t, err)
	held, err := lock.New(session, name, lock.Options{}).TryAcquire(ctx)
	if err != nil {
		require.ErrorIs(t, err, lock.ErrBusy)
		return true
	}
	require.NoError(t, held.Release(ctx))
	return false
}

// staysBusy waits until the lease of a lock's first key has been renewed, after some of its time has gone
// by, so that no renewal of before counts. The locks that it is used for have a TTL of 9 s, so that a busy
// machine renews in time.
func staysBusy(t *testing.T, s *etcdtest.Server, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	r, err := pb.NewKVClient(s.Conn(t)).Range(ctx, &pb.RangeRequest{Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), Limit: 1, SortTarget: pb.RangeRequest_CREATE})
	require.NoError(t, err)
	require.NotEmpty(t, r.Kvs, "the lock is free while its command is there")
	leases := pb.NewLeaseClient(s.Conn(t))
	left, aged, renewed := int64(0), false, false
	for !renewed {
		l, err := leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: r.Kvs[0].Lease, Keys: true})
		require.NoError(t, err)
		require.Contains(t, l.Keys, r.Kvs[0].Key, "the lock was lost while its command is there")
		aged, renewed = aged || l.TTL < left, aged && l.TTL > left
		left = l.TTL
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// nobodyWorks checks that no worker of the shell works at a moment when the lock is
// another's.
func (s *shell) nobodyWorks(name string) {
	s.t.Helper()
	at := acquire(s.t, s.etcd, name)
	assert.Empty(s.t, s.marked("worker"), "processes of the command live while another has the lock")
	files, _ := filepath.Glob(filepath.Join(s.dir, "*.beat"))
	require.NotEmpty(s.t, files)
	for _, f := range files {
		assert.True(s.t, lastBeat(s.t, f).Before(at), "%s worked while another had the lock", filepath.Base(f))
	}
}

// testWorker is a program that writes the time into the file of its first argument, whatever signal comes,
// and says its number when it has begun, and when it has received WINCH.
func testWorker() {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	go func() { // ends with the process
		for range resized {
			fmt.Println("is resized")
		}
	}()
	f, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for first := true; ; first = false {
		fmt.Fprintln(f, time.Now().UnixNano())
		if first {
			fmt.Println("works", os.Getpid())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// testPager is a program that does with the terminal what less does: it reads keys from it, one at a time.
// q ends it, z stops it.
func testPager() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fd := int(tty.Fd())
	usual, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	raw := *usual
	raw.Lflag &^= unix.ICANON | unix.ECHO
	set := func(mode *unix.Termios, says string) {
		_ = unix.IoctlSetTermios(fd, unix.TCSETSW, mode)
		fmt.Println(says)
	}
	set(&raw, "pager shows")
	for key := make([]byte, 1); ; {
		n, err := tty.Read(key)
		switch {
		case err != nil || n == 0 || key[0] == 'q':
			set(usual, "pager ends")
			os.Exit(0)
		case key[0] == 'z':
			set(usual, "pager stops")
			continued := make(chan os.Signal, 1)
			signal.Notify(continued, unix.SIGCONT)
			_ = unix.Kill(os.Getpid(), unix.SIGTSTP)
			<-continued // another thread may take the TSTP, and this one run on until that stops it
			signal.Stop(continued)
			set(&raw, "pager shows again")
		}
	}
}
