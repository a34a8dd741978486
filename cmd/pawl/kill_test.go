package main

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// family starts workers that stay below their parent, that leave its group, and that
// leave it altogether.
const family = `setsid worker far.beat & (setsid worker orphan.beat &) & worker near.beat & echo $$ >command; wait`

// startFamily starts a command with such workers under a lock, and returns its process.
func startFamily(t *testing.T, s *shell, under string) int {
	t.Helper()
	s.types(under + ` -- sh -c '` + family + `'`)
	command, err := strconv.Atoi(s.file("command"))
	require.NoError(t, err)
	for _, f := range []string{"far", "orphan", "near"} {
		s.file(f + ".beat")
	}
	return command
}

func TestNobodyWorksWithoutTheLockWhicheverProcessIsKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "elect"} {
		for _, who := range []string{"guardian", "holder", "command", "job"} {
			t.Run(kind+" "+who, func(t *testing.T) {
				t.Parallel()
				s := startShell(t)
				under := "pawl " + kind + " --grace 1"
				if who == "holder" { // nobody else revokes the lease
					under += " --ttl 6"
				}
				under += " kill"
				if kind == "elect" {
					under += " me"
				}
				command := startFamily(t, s, under)
				guardian, holder := pair(t, command)
				victim := map[string]int{"guardian": guardian, "holder": holder, "command": command, "job": -guardian}[who]
				require.NoError(t, unix.Kill(victim, unix.SIGKILL))
				s.nobodyWorks("kill")
				s.types("echo end $?")
				switch who {
				case "holder":
					s.sees("end 121")
				case "command":
					s.sees("end 137")
				}
			})
		}
	}
}

func TestAStoppedHolderIsNotExtendedAndTheCommandDies(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	_, holder := pair(t, startFamily(t, s, "pawl lock --ttl 6 stall"))
	require.NoError(t, unix.Kill(holder, unix.SIGSTOP))
	s.nobodyWorks("stall")
	s.types("echo end $?")
	s.sees("end 121")
}

func TestAStoppedGuardianChangesNothing(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`stty -echo`)
	guardian, _ := pair(t, startFamily(t, s, "pawl lock --ttl 9 stall"))
	require.NoError(t, unix.Kill(guardian, unix.SIGSTOP))
	staysBusy(t, s.etcd, "stall")
	require.NotEmpty(t, s.marked("worker\x00near.beat"))
	require.NoError(t, unix.Kill(guardian, unix.SIGCONT))
	staysBusy(t, s.etcd, "stall")
	assert.NotEmpty(t, s.marked("worker\x00near.beat"), "what it had not seen for longer than a TTL was extended")
}

func TestAStoppedWaiterDoesNotStartItsCommand(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.types(`pawl lock --ttl 9 wait -- sh -c 'echo $$ >command; exec sleep 1000' &`)
	s.file("command")
	s.types(`pawl lock --ttl 9 wait -- worker a.beat`)
	eventually(t, func() bool { return countKeys(t, s.etcd) == 4 }, "it does not queue")
	s.press(ctrlZ)
	s.sees("Stopped")
	s.types("kill %1")
	s.reports("Exit 143")
	staysBusy(t, s.etcd, "wait")
	assert.NoFileExists(t, filepath.Join(s.dir, "a.beat"), "a stopped job works")
	s.types("fg")
	s.sees("works ")
}
