package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/test/etcdtest"
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
				if who == "holder" { // or a test would end before the lease
					under += " --ttl 300"
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

// killedHolder starts pawl with args and a command, kills the holder, and returns what is left: the
// guardian, and the command.
func killedHolder(t *testing.T, endpoint string, args ...string) (p *program, command int) {
	t.Helper()
	p = begin(t, endpoint, append(args, "--", "sh", "-c", "echo $$; exec sleep 1000")...)
	command = pid(t, p.lines())
	require.NoError(t, unix.Kill(parentOf(t, command), unix.SIGKILL))
	return p, command
}

func TestTheGuardianRevokesTheLeaseOfAKilledHolder(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"lock":         {"lock", "a"},
		"shared":       {"lock", "--shared", "a"},
		"slot":         {"lock", "--permits", "2", "a"},
		"set":          {"lock", "a", "b"},
		"etcd's":       {"lock", "--etcd-layout", "a"},
		"delayed":      {"lock", "--lock-delay", "1", "a"},
		"elect":        {"elect", "a", "me"},
		"etcd's elect": {"elect", "--etcd-layout", "a", "me"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := etcdtest.Start(t)
			p, command := killedHolder(t, s.Addr(), append(args, "--ttl", "200", "-v")...)
			assert.Equal(t, cli.ExitLost, p.code(t))
			assert.False(t, runs(command))
			assert.Contains(t, p.stderr.String(), "is revoked\n")
			assert.Contains(t, p.stderr.String(), "was ended: the pawl process that held the lock was killed\n")
			assert.Zero(t, countKeys(t, s), "what it held is there")
			requireNothingLeft(t, s)
		})
	}
}

func TestTheGuardianConnectsAsTheKilledHolderDid(t *testing.T) {
	t.Parallel()
	s := etcdtest.StartWith(t, etcdtest.Options{TLS: true, ClientCerts: true})
	cert, key, cacert := pemFiles(t, s.TLS("nobody"), s.Addr())
	s.AddUser(t, "backup", "secret", etcdtest.Access{Prefix: "jobs/", Read: true, Write: true})
	s.EnableAuth(t, "rootpw")
	p, _ := killedHolder(t, s.Endpoints()[0], "lock", "-v", "--ttl", "200", "--user", "backup:secret", "--namespace", "jobs/", "--cacert", cacert, "--cert", cert, "--key", key, "a")
	assert.Equal(t, cli.ExitLost, p.code(t))
	assert.Contains(t, p.stderr.String(), "is revoked\n")
}

// One lock was to be held for a while, whatever becomes of its command. A signal cuts the lock-delay of
// the other short.
func TestAGuardianLeavesALeaseToExpireIfItMayNotRevokeIt(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p, _ := killedHolder(t, s.Addr(), "lock", "-v", "--ttl", "200", "--at-least", "1", "least")
	assert.Equal(t, cli.ExitLost, p.code(t))
	assert.NotContains(t, p.stderr.String(), "is revoked")
	assert.EqualValues(t, 2, countKeys(t, s), "the lock's and the session's")

	p, _ = killedHolder(t, s.Addr(), "lock", "-v", "--ttl", "60", "--lock-delay", "190", "delay")
	eventually(t, func() bool { return strings.Contains(p.stderr.String(), "stays for --lock-delay, 3m10s") }, "it does not wait")
	assert.EqualValues(t, 4, countKeys(t, s))
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitLost, p.code(t))
	assert.Contains(t, p.stderr.String(), "is left to expire: ended by signal: terminated")
	assert.EqualValues(t, 4, countKeys(t, s))
}

// rule: RC1
// A stopped process could go on, and believe in the lock.
func TestNothingIsRevokedBeforeAStoppedHolderIsDead(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "-v", "--ttl", "18", "a", "--", "sh", "-c", "echo $$; exec sleep 1000") // 3 s for a busy machine to kill it
	command := pid(t, p.lines())
	holder := parentOf(t, command)
	watch, err := pb.NewWatchClient(s.Conn(t)).Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}}}}))
	_, err = watch.Recv() // it has begun
	require.NoError(t, err)
	require.NoError(t, unix.Kill(holder, unix.SIGSTOP))
	_, err = watch.Recv()
	require.NoError(t, err)
	assert.False(t, runs(holder), "its key was deleted while it could have gone on")
	assert.False(t, runs(command), "its key was deleted while the command worked")
	assert.Equal(t, cli.ExitLost, p.code(t))
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
