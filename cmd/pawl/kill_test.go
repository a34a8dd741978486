package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// rule: RC2
// A stopped process could go on, and believe in the lock. The lease does not expire here, however late a busy machine
// lets the guardian kill: the test renews it.
func TestNothingIsRevokedBeforeAStoppedHolderIsDead(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "-v", "--ttl", "4", "a", "--", "sh", "-c", "echo $$; exec sleep 1000")
	command := pid(t, p.lines())
	holder := parentOf(t, command)
	require.NoError(t, unix.Kill(holder, unix.SIGSTOP))
	leases := pb.NewLeaseClient(s.Conn(t))
	all, err := leases.LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{})
	require.NoError(t, err)
	require.Len(t, all.Leases, 1)
	renewals, err := leases.LeaseKeepAlive(t.Context())
	require.NoError(t, err)
	ended := make(chan int, 1)
	go func() { ended <- p.code(t) }()                                                   // ends with the guardian
	for ttl := int64(1); ttl > 0 && len(ended) == 0; time.Sleep(50 * time.Millisecond) { // between two renewals
		require.NoError(t, renewals.Send(&pb.LeaseKeepAliveRequest{ID: all.Leases[0].ID}))
		answer, err := renewals.Recv()
		require.NoError(t, err)
		ttl = answer.TTL // 0 of one that was revoked; a guardian that is late leaves it to expire, and ends
	}
	assert.False(t, runs(holder), "its lease was revoked while it could have gone on")
	assert.False(t, runs(command), "its lease was revoked while the command worked")
	assert.Equal(t, cli.ExitLost, <-ended)
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
