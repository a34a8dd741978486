package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A console is a pseudo-terminal with a program on it, and what its screen shows.
type console struct {
	t    *testing.T
	keys *os.File
	vt   vt10x.Terminal
	cmd  *exec.Cmd
	read sync.WaitGroup
}

// onTerminal starts pawl on a new terminal.
func onTerminal(t *testing.T, endpoint string, args ...string) *console {
	t.Helper()
	c := &console{t: t, cmd: exec.Command("pawl", args...)}
	c.cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+endpoint, "TERM=xterm-256color", "TMPDIR="+t.TempDir())
	var err error
	c.keys, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 12, Cols: 130})
	require.NoError(t, err)
	c.vt = vt10x.New(vt10x.WithSize(130, 12), vt10x.WithWriter(c.keys))
	c.read.Go(func() { _, _ = io.Copy(c.vt, c.keys) }) // ends when the program and the terminal are gone
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		_ = c.keys.Close()
		c.read.Wait()
	})
	return c
}

func (c *console) screen() string { return c.vt.String() }

// shows waits until the screen has all of texts, in their order.
func (c *console) shows(texts ...string) {
	c.t.Helper()
	var screen string
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("awaited %q, last on the screen:\n%s", texts, screen)
		}
	})
	eventually(c.t, func() bool {
		screen = c.screen()
		rest := screen
		for _, text := range texts {
			var ok bool
			if _, rest, ok = strings.Cut(rest, text); !ok {
				return false
			}
		}
		return true
	}, fmt.Sprintf("not on the screen: %q", texts))
}

func (c *console) press(keys string) {
	c.t.Helper()
	_, err := c.keys.WriteString(keys)
	require.NoError(c.t, err)
}

// code waits for the end, and returns the exit code.
func (c *console) code() int {
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	session, err := client.NewSession(t.Context(), lease.Options{Owner: "ann"})
	require.NoError(t, err)
	acquire := func(name string) *lock.Held {
		h, err := lock.New(session, name, lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	acquire("aa")
	c := onTerminal(t, s.Addr(), "top")
	c.shows("1 held, 0 waiting", "NAME↑", "WAITERS", "aa", "ann", "≤", "q)uit")
	h := acquire("bb")
	c.shows("2 held", "aa", "ann", "≤", "bb", "ann")
	c.press("r")
	c.shows("NAME↓", "bb", "aa")
	c.press("a")
	c.shows("TAKEN↓", "bb", "aa")
	require.NoError(t, h.Release(t.Context()))
	c.shows("1 held", "bb  ", "-", "aa")
	c.press("b")
	c.shows("NAME", "aa")
	c.gone("bb")
	require.NoError(t, session.Close(t.Context()))
	c.press("bl")
	c.shows("0 held", "LOST↓", "aa", "-", "1", "bb")
	require.NoError(t, pty.Setsize(c.keys, &pty.Winsize{Rows: 12, Cols: 60}))
	c.vt.Resize(60, 12)
	c.gone("TAKEN")
	c.shows("NAME", "HOLDER", "aa")
	c.press("q")
	assert.Equal(t, 0, c.code())
}

// gone waits until text is not on the screen.
func (c *console) gone(text string) {
	c.t.Helper()
	eventually(c.t, func() bool { return !strings.Contains(c.screen(), text) }, fmt.Sprintf("%q stays on the screen", text))
}

func TestTopEndsAtASignalAndGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c := onTerminal(t, s.Addr(), "top", "--sort", "waiters")
	c.shows("0 held", "WAITERS↓")
	require.NoError(t, c.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 0, c.code())
}

func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	session, err := client.NewSession(t.Context(), lease.Options{Owner: "ann"})
	require.NoError(t, err)
	h, err := lock.New(session, "backup", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)

	c := onTerminal(t, s.Addr(), "break", "backup")
	c.shows(`lock "backup" is held by ann, token`, "nobody waits", "[y/N]")
	c.press("\r")
	c.shows("nothing was done")
	assert.Equal(t, 125, c.code())
	c = onTerminal(t, s.Addr(), "break", "backup")
	c.shows("[y/N]")
	c.press("\x03")
	_ = c.code()
	assert.Equal(t, unix.SIGINT, c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	require.NoError(t, h.Err())

	c = onTerminal(t, s.Addr(), "break", "backup")
	c.shows("[y/N]")
	c.press("yes\r")
	c.shows("evicted ann from lock", "nobody holds it now")
	assert.Equal(t, 0, c.code())
	<-h.Done()
	assert.ErrorIs(t, h.Err(), lock.ErrKeyDeleted)
}

func TestTopFiltersAndShowsDetailsInTheWholeWidth(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	session, err := client.NewSession(t.Context(), lease.Options{Owner: "ann"})
	require.NoError(t, err)
	defer session.Close(context.Background())
	long := "a-name-that-is-longer-than-four-and-twenty-columns"
	for _, name := range []string{long, "more", "other"} {
		_, err := lock.New(session, name, lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
	}
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	go lock.New(session, long, lock.Options{}).Acquire(waiting) // ends with cancel
	c := onTerminal(t, s.Addr(), "top")
	c.shows("3 held, 1 waiting", long+"  ann ", "more", "other")
	c.press("/oth")
	c.shows("other", "filter: oth")
	c.gone(long)
	c.press("\r")
	c.press("\x1b")
	c.shows(long)
	c.press("\x1b[H\r")
	c.shows("DETAILS", "lock "+long, "holder  ann", "token", "lease", "key     "+long+"/")
	c.press("\x1b[F")
	c.shows("1 waiting", "   1  ann")
	c.press("\x1b")
	c.shows("NAME↑", "other")
	c.press("q")
	assert.Equal(t, 0, c.code())
}
