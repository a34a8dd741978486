package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

func TestACommandCanBePipedIntoAPager(t *testing.T) {
	t.Parallel()
	for _, pawl := range []string{"pawl lock --ttl 9 pipe", "pawl elect --ttl 9 pipe me"} {
		t.Run(strings.Fields(pawl)[1], func(t *testing.T) {
			t.Parallel()
			s := startShell(t)
			s.types(pawl + ` -- sh -c 'echo $$ >command; exec seq 1000000' | pager; echo end "${PIPESTATUS[@]}"`)
			s.sees("pager shows\r\n")
			s.file("command")
			staysBusy(t, s.etcd, "pipe")
			s.press("q")
			s.sees("pager ends")
			s.sees("end 141 0") // seq died of PIPE
			assert.False(t, busy(t, s.etcd, "pipe"))
		})
	}
}

func TestACommandReadsTheTerminalBesideAPipe(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`seq 1000000 | pawl lock pipe -- pager; echo end "${PIPESTATUS[@]}"`)
	s.sees("pager shows\r\n")
	s.press("q")
	s.sees("pager ends")
	s.sees("end 141 0")
}

func TestACommandInTheBackgroundComesToTheForeground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock --ttl 9 bg -- sh -c 'echo $$ >command; exec pager' &`)
	command, err := strconv.Atoi(s.file("command"))
	require.NoError(t, err)
	eventually(t, func() bool { return processState(command) == 'T' }, "it is not stopped for setting the terminal in the background")
	s.reports("Stopped")
	staysBusy(t, s.etcd, "bg")
	s.types("fg")
	s.sees("pager shows")
	s.press("q")
	s.sees("pager ends")
	s.types("echo end $?")
	s.sees("end 0")
	assert.False(t, busy(t, s.etcd, "bg"))
}

func TestCtrlCEndsAShellsLoop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, shown string }{
		{"lock", `for i in 1 2 3; do pawl lock loop -- sh -c 'echo works; exec sleep 1000'; done; echo goes-on`, "works"},
		{"elect", `for i in 1 2 3; do pawl elect loop me -- sh -c 'echo works; exec sleep 1000'; done; echo goes-on`, "works"},
		{"a wait", `pawl lock loop -- sh -c 'echo held >held; exec sleep 1000' & until test -s held; do sleep 0.05; done; for i in 1 2 3; do echo waits; pawl lock loop -- true; done; echo goes-on`, "waits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startShell(t)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "script"), []byte(c.script), 0o600))
			s.types("bash script")
			s.sees(c.shown)
			if c.name == "a wait" {
				eventually(t, func() bool { return countKeys(t, s.etcd) == 4 }, "it does not queue")
			}
			s.press(ctrlC)
			s.sees("ready$ ")
			s.types("echo end $?")
			s.sees("end 130")
			assert.False(t, s.has("goes-on"), "the script went on")
			if c.name != "a wait" { // its background job ignores INT
				assert.False(t, busy(t, s.etcd, "loop"))
			}
		})
	}
}

func TestAWaitIsReportedOnATerminal(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock --owner ann wait -- sh -c 'echo held >command; exec sleep 1000' &`)
	s.file("command")
	s.types(`pawl lock wait -- true`)
	s.sees(`pawl: waiting: "wait" is held by ann for `)
	s.press(ctrlC)
	s.sees("ready$ ")
}

func TestACommandThatHandlesCtrlCDecidesItself(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "script"),
		[]byte(`pawl lock loop -- sh -c 'n=0; trap "n=\$((n+1))" INT; echo works; sleep 1000; sleep 0.5; exit $n'; echo goes-on $?`), 0o600))
	s.types("bash script; echo end $?")
	s.sees("works")
	eventually(t, func() bool { return len(s.marked("sleep\x001000")) > 0 }, "sleep does not begin")
	s.press(ctrlC)
	s.sees("goes-on 1") // it was sent once
	s.sees("end 0")
}

func TestCtrlBackslashReachesTheCommand(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`ulimit -c 0; seq 10 | pawl lock quit -- sh -c 'echo works; exec sleep 1000'; echo end $?`)
	s.sees("works\r\n")
	s.press(ctrlBackslash)
	s.sees("end 131")
	assert.False(t, busy(t, s.etcd, "quit"))
}

func TestAStoppedJobKeepsItsLockUntilItGoesOn(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock --ttl 9 stop -- worker a.beat`)
	s.sees("works ")
	workers := s.marked("worker")
	require.Len(t, workers, 1)
	s.press(ctrlZ)
	s.sees("Stopped")
	eventually(t, func() bool { return stands(workers[0]) }, "a thread of the command works on")
	last := lastBeat(t, filepath.Join(s.dir, "a.beat"))
	staysBusy(t, s.etcd, "stop")
	assert.Equal(t, last, lastBeat(t, filepath.Join(s.dir, "a.beat")), "a stopped command works")

	s.types("bg")
	s.sees("worker a.beat &")
	eventually(t, func() bool { return lastBeat(t, filepath.Join(s.dir, "a.beat")).After(last) }, "bg does not make it go on")
	// pawl forwards the shell's CONT to the command. That is over when a later signal, of a higher number,
	// has come the same way. A CONT that comes after Ctrl-Z continues the job again, perhaps before the
	// shell has seen that it stopped.
	guardian, _ := pair(t, workers[0])
	require.NoError(t, unix.Kill(guardian, unix.SIGWINCH))
	s.sees("is resized\r\n")
	s.types("fg")
	s.sees("worker a.beat\r\n")
	s.stops()
	s.types("kill -KILL %1")
	s.nobodyWorks("stop")
}

// A stopped job makes no progress, which counts, and who stops it is told.
//
// rule: H6
func TestAStoppedJobIsToldThatItsTimeCounts(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock --stall 1h stop -- worker a.beat`)
	s.sees("works ")
	s.press(ctrlZ)
	for _, text := range []string{"Stopped", "worker is stopped, and --stall counts: it is ended unless it goes on and touches PAWL_PROGRESS within 1h0m0s of the last time"} {
		eventually(t, func() bool { return s.has(text) }, text) // in either order
	}
	s.types("kill -KILL %1")
	s.nobodyWorks("stop")
}

func TestAStoppedJobIsEndedByKill(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock stop -- sh -c 'echo works; sleep 1000'`)
	s.sees("works\r\n")
	s.press(ctrlZ)
	s.sees("Stopped")
	s.types("kill %1")
	s.reports("Exit 143")
	assert.False(t, busy(t, s.etcd, "stop"))
}

func TestACommandThatStopsItselfStopsTheJob(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock stop -- pager`)
	s.sees("pager shows\r\n")
	s.press("z")
	s.sees("pager stops")
	s.sees("Stopped")
	s.types("fg")
	s.sees("pager shows again")
	s.press("q")
	s.sees("pager ends")
	s.types("echo end $?")
	s.sees("end 0")
}

func TestAShellUnderALockHasItsOwnJobs(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock inner -- env PS1='inner\044 ' bash --norc --noprofile -i`) // the prompt is not what is typed, and what jobs and fg show
	s.sees("\ninner$ ")
	s.types("sleep 1000")
	eventually(t, func() bool { return len(s.marked("sleep")) > 0 }, "sleep does not begin")
	s.press(ctrlZ)
	s.sees("Stopped")
	s.types("kill %1; suspend")
	s.sees("ready$ ")
	s.types(`jobs; echo "out"er`)
	s.sees("outer\r\n")
	s.types("fg")
	s.sees("inner$ ")
	s.types("exit 3")
	s.sees("ready$ ")
	s.types("echo end $?")
	s.sees("end 3")
}

func TestAJobThatNobodyCanContinueIsNotStopped(t *testing.T) {
	t.Parallel()
	s := startTerminal(t, etcdtest.Start(t), "pawl", "lock", "alone", "--", "pager")
	s.sees("pager shows\r\n")
	s.press(ctrlZ)
	s.press("z")
	s.sees("pager shows again")
	s.press("q")
	s.sees("pager ends")
}

func TestClosingTheTerminalEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		t.Run("stopped "+strconv.FormatBool(stopped), func(t *testing.T) {
			t.Parallel()
			s := startShell(t)
			s.types(`pawl lock close -- sh -c 'echo $$ >command; sleep 1000'`)
			command := s.file("command")
			if stopped {
				s.press(ctrlZ)
				s.sees("Stopped")
			}
			require.NoError(t, s.tty.Close())
			n, err := strconv.Atoi(command)
			require.NoError(t, err)
			gone(t, n)
			eventually(t, func() bool { return !busy(t, s.etcd, "close") }, "the lock is not given back")
		})
	}
}

func TestNohupKeepsTheCommandWhenTheTerminalIsClosed(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`nohup pawl lock --ttl 9 nohup -- worker a.beat >/dev/null 2>&1 &`)
	s.file("a.beat")
	require.NoError(t, s.tty.Close())
	eventually(t, func() bool { return len(s.marked("bash")) == 0 }, "the shell does not end")
	staysBusy(t, s.etcd, "nohup")
	now := time.Now()
	eventually(t, func() bool { return lastBeat(t, filepath.Join(s.dir, "a.beat")).After(now) }, "the command does not go on")
}

func TestAShellThatIsKilledTakesItsStoppedJobWithIt(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock orphan -- sh -c 'echo $$ >command; sleep 1000'`)
	s.file("command")
	s.press(ctrlZ)
	s.sees("Stopped")
	require.NoError(t, s.cmd.Process.Signal(unix.SIGKILL))
	eventually(t, func() bool { return !busy(t, s.etcd, "orphan") }, "a job that nobody can continue keeps its lock")
}
