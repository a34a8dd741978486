package supervise

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// linked is a guardian, and its holder's end of their link.
func linked(t *testing.T) (g *guardian, theirs *os.File) {
	ours, theirs, err := newConn()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	raw, err := ours.SyscallConn()
	require.NoError(t, err)
	return &guardian{conn: raw}, theirs
}

func TestAHolderThatReadsNoSignalsDoesNotHoldUpItsGuardian(t *testing.T) {
	g, _ := linked(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, g.conn.Control(func(fd uintptr) {
			for { // until nothing more is kept for it
				if _, err := unix.Write(int(fd), []byte{1}); err == unix.EAGAIN {
					return
				}
			}
		}))
		g.forward(unix.SIGUSR1)
	}()
	select {
	case <-done:
	case <-time.After(testscale.Hang):
		require.Fail(t, "the guardian waits for its holder")
	}
}

// On a busy machine a guardian may wait for a processor in the middle of sending.
func TestAGuardianThatIsLateLosesNoSignal(t *testing.T) {
	g, theirs := linked(t)
	require.NoError(t, unix.SetNonblock(int(theirs.Fd()), true))
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() { // ends with stop
			for !stop.Load() {
			}
		}()
	}
	buf := make([]byte, 1)
	for range testscale.Of(20_000, 200_000) {
		g.forward(unix.SIGUSR1)
		n, err := unix.Read(int(theirs.Fd()), buf)
		require.NoError(t, err, "a signal was lost")
		require.Equal(t, 1, n)
	}
}

func TestAGuardianStoppedBetweenMemoryAndClockFindsTheDeadlineExtended(t *testing.T) {
	var p sharedMemory
	p.deadline.Store(int64(10 * time.Second))
	now := 9 * time.Second
	stopped := func() time.Duration { // for a minute, in which the holder continues
		if p.deadline.CompareAndSwap(int64(10*time.Second), int64(75*time.Second)) {
			now += time.Minute
		}
		return now
	}
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, time.Now().Add(6*time.Second), p.until(stopped))
	})
}

func TestAGuardianWatchesEachRunAgain(t *testing.T) {
	g := &guardian{shared: new(sharedMemory)}
	g.begin(1)
	g.watch.end(ErrRunningOut)
	g.begin(2)
	assert.NoError(t, g.watch.cause)
	assert.Equal(t, int64(2), g.run)
}

// A holder that was killed in the middle of its release would leave its session's keys for a TTL.
func TestAGuardianKillsNoHolderWhoseRunHasEnded(t *testing.T) {
	for range testscale.Of(20_000, 1_000_000) {
		var p sharedMemory
		p.running.Store(1)
		finished, struck := make(chan bool), make(chan bool)
		go func() { finished <- p.finish(1) }()
		go func() { struck <- p.strike(1) }()
		if <-finished {
			require.False(t, <-struck)
			require.Zero(t, p.run())
		} else {
			require.True(t, <-struck)
			require.True(t, p.strike(1), "it kills until nothing is left")
			require.Equal(t, int64(1), p.run())
		}
	}
}

// dieVariable has a test's copy of itself die.
const dieVariable = "PAWL_TEST_DIE"

func TestWhoIgnoresASignalDoesNotWaitToDieOfIt(t *testing.T) {
	if os.Getenv(dieVariable) != "" {
		signal.Notify(make(chan os.Signal, 1), unix.SIGTERM)
		Die(unix.SIGINT)
		os.Exit(7)
	}
	for trap, want := range map[string]string{"''": "exit status 7", "-": "signal: interrupt"} {
		cmd := exec.Command("sh", "-c", `trap `+trap+` INT; exec "$0" -test.run='^`+t.Name()+`$'`, os.Args[0])
		cmd.Env = append(os.Environ(), dieVariable+"=1")
		require.NoError(t, cmd.Start())
		timeout := time.AfterFunc(testscale.Hang, func() { _ = cmd.Process.Kill() })
		assert.EqualError(t, cmd.Wait(), want)
		timeout.Stop()
	}
}

func TestAProgramOfAnotherUserIsWarnedOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	me := os.Geteuid()
	for _, c := range []struct {
		name   string
		setuid bool
		caller int
		warned bool
	}{
		{"a usual program", false, me + 1, false},
		{"one that runs as its caller", true, me, false},
		{"one that runs as another", true, me + 1, true},
		{"one that root starts", true, 0, false},
	} {
		mode := os.FileMode(0o700)
		if c.setuid {
			mode |= fs.ModeSetuid
		}
		require.NoError(t, os.Chmod(path, mode))
		user, warned := runsAs(path, c.caller)
		assert.Equal(t, c.warned, warned, c.name)
		if warned {
			assert.EqualValues(t, me, user, c.name)
		}
	}
	_, warned := runsAs(path+"s", me+1)
	assert.False(t, warned, "one that is not there")
}

func TestWhatForksAndEndsIsLeftThoughNoScanShowsIt(t *testing.T) {
	adoptOrphans()
	assert.False(t, anyLeft())
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	assert.True(t, anyLeft())
	require.NoError(t, cmd.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	assert.False(t, anyLeft())
}

// The signal that ended the command, and the holder too if it is INT, may reach the guardian earlier, later or never.
func TestHowAHolderEndedIsKnownFromItsStatus(t *testing.T) {
	lost := End{Err: errHolderGone}
	for status, want := range map[unix.WaitStatus]struct{ released, running End }{
		7 << 8:                        {End{Code: 7}, lost},
		unix.WaitStatus(unix.SIGINT):  {End{Signal: unix.SIGINT}, lost},
		unix.WaitStatus(unix.SIGKILL): {End{Signal: unix.SIGKILL}, lost},
	} {
		g := &guardian{shared: new(sharedMemory), status: status}
		g.begin(0)
		assert.Equal(t, want.released, g.end())
		g.shared.running.Store(1)
		end := g.end()
		end.Until = time.Time{}
		assert.Equal(t, want.running, end)
	}
}

// rule: RC2
// Without the system's help, what the holder started may have become the child of another process.
func TestWhatAHolderLeavesIsKnownOnlyIfAllThatItStartedIs(t *testing.T) {
	for name, c := range map[string]struct {
		reaper, running bool
		cause           error
		left            bool
	}{
		"killed":                              {true, true, nil, true},
		"stopped, and killed at the deadline": {true, true, ErrRunningOut, true},
		"killed on another system":            {false, true, nil, false},
		"killed when its command had ended":   {true, false, nil, false},
		"the same, late":                      {true, false, ErrRunningOut, false},
	} {
		g := &guardian{shared: &sharedMemory{remains: Remains{1, 2, 3, 4}}, status: unix.WaitStatus(unix.SIGKILL), ended: true, reaper: c.reaper}
		if c.running {
			g.shared.running.Store(1)
		}
		g.begin(1)
		g.watch.cause = c.cause
		want := Remains{}
		if c.left {
			want = Remains{1, 2, 3, 4}
		}
		assert.Equal(t, want, g.end().Remains, name)
	}
}
