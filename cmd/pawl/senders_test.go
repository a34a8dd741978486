package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// testCatcher is a program that writes its number, and each signal that it gets, into the file
// "caught". KILL ends it.
func testCatcher() {
	got := make(chan os.Signal, 100)
	signal.Notify(got, unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGHUP, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	f, err := os.Create("caught")
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, os.Getpid())
	for sig := range got {
		fmt.Fprintln(f, unix.SignalName(sig.(unix.Signal)))
	}
}

// Whoever sends a signal, and to whichever process of pawl, the command gets it once. A program on a
// terminal cannot tell that by whether it is in the foreground: docker stop sends what the terminal could.
func TestACommandOnATerminalGetsEachSignalOnceWhoeverSendsIt(t *testing.T) {
	t.Parallel()
	type sender func(s *shell, guardian, holder int)
	to := func(sig unix.Signal) map[string]sender {
		return map[string]sender{
			"a process, to the guardian": func(s *shell, guardian, _ int) { require.NoError(s.t, unix.Kill(guardian, sig)) },
			"a process, to the holder":   func(s *shell, _, holder int) { require.NoError(s.t, unix.Kill(holder, sig)) },
			"a process, to both": func(s *shell, guardian, holder int) {
				require.NoError(s.t, unix.Kill(guardian, sig))
				require.NoError(s.t, unix.Kill(holder, sig))
			},
		}
	}
	all := map[unix.Signal]map[string]sender{}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGHUP, unix.SIGTERM, unix.SIGUSR1} {
		all[sig] = to(sig)
	}
	all[unix.SIGINT]["the terminal"] = func(s *shell, _, _ int) { s.press(ctrlC) }
	all[unix.SIGQUIT]["the terminal"] = func(s *shell, _, _ int) { s.press(ctrlBackslash) }
	all[unix.SIGWINCH]["the terminal"] = func(s *shell, _, _ int) {
		require.NoError(s.t, pty.Setsize(s.tty, &pty.Winsize{Rows: 20, Cols: 33}))
	}
	all[unix.SIGHUP]["the terminal"] = func(s *shell, _, _ int) { require.NoError(s.t, s.tty.Close()) }
	for _, leader := range []bool{true, false} {
		for sig, senders := range all {
			for name, send := range senders {
				name := fmt.Sprintf("%s by %s, pawl leads the session %v", unix.SignalName(sig), name, leader)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					etcd := etcdtest.Start(t)
					var s *shell
					if leader { // as in a container with a terminal
						s = startTerminal(t, etcd, "pawl", "lock", "a", "--", "catcher")
					} else { // a shell without job control: all is one group, in the foreground
						s = startTerminal(t, etcd, "sh", "-c", "trap '' INT QUIT; (trap - INT QUIT; exec pawl lock a -- catcher); exit")
					}
					command := 0
					eventually(t, func() bool { n, _ := fmt.Sscan(s.file("caught"), &command); return n == 1 }, "it does not begin")
					guardian, holder := pair(t, command)
					send(s, guardian, holder)
					caught := func() string {
						text, err := os.ReadFile(filepath.Join(s.dir, "caught"))
						require.NoError(t, err)
						return string(text)
					}
					eventually(t, func() bool { return strings.Contains(caught(), unix.SignalName(sig)) }, "it does not come")
					require.NoError(t, unix.Kill(guardian, unix.SIGUSR2)) // comes after all that came before it
					eventually(t, func() bool { return strings.Contains(caught(), "SIGUSR2") }, "what is sent later does not come")
					assert.Equal(t, 1, strings.Count(caught(), unix.SignalName(sig)), caught())
				})
			}
		}
	}
}

// Where it shows no processes, the system cannot tell pawl the file of its program either.
func TestACommandRunsWhereProcIsNotMounted(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to hide /proc")
	}
	s := etcdtest.Start(t)
	p := beginWith(t, s.Addr(), "unshare", "-m", "sh", "-c", `mount -t tmpfs none /proc && exec pawl lock a -- sh -c 'test ! -e /proc/self && echo works; exit 7'`)
	out := p.lines()
	assert.Equal(t, "works", next(t, out))
	assert.Equal(t, 7, p.code(t))
	assert.Contains(t, p.stderr.String(), "the system does not show its processes")
	requireNothingLeft(t, s)
}

// Somebody waits already when the command begins, before it has a handler.
func TestTheSignalOfOnWantedWaitsUntilTheCommandCatchesIt(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	first := begin(t, s.Addr(), "lock", "a", "--", "sh", "-c", "echo held; exec sleep 1000")
	next(t, first.lines())
	dir := t.TempDir()
	second := beginWith(t, s.Addr(), "env", "-C", dir, awareVariable+"=1ms", "pawl", "lock", "--on-wanted", "USR1", "a", "--", "sh", "-c",
		`echo started; until test -e go; do sleep 0.02; done; trap 'echo wanted; exit 9' USR1; while :; do sleep 0.02; done`)
	eventually(t, func() bool { return countKeys(t, s) == 4 }, "the second does not queue")
	third := exec.Command("pawl", "lock", "--endpoints", s.Addr(), "a", "--", "true")
	require.NoError(t, third.Start())
	t.Cleanup(func() { _ = third.Process.Kill(); _ = third.Wait() })
	eventually(t, func() bool { return countKeys(t, s) == 6 }, "the third does not queue")
	require.NoError(t, first.cmd.Process.Signal(unix.SIGTERM))
	out := second.lines()
	assert.Equal(t, "started", next(t, out))
	eventually(t, func() bool { return strings.Contains(second.stderr.String(), "sh does not catch SIGUSR1") }, "it does not say so")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	assert.Equal(t, "wanted", next(t, out))
	assert.Equal(t, 9, second.code(t))
	require.NoError(t, third.Wait())
}
