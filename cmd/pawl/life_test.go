package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
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
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// lines reads a program's stdout line by line.
func (p *program) lines() *bufio.Scanner { return bufio.NewScanner(p.stdout) }

// next is the next line of out.
func next(t *testing.T, out *bufio.Scanner) string {
	t.Helper()
	require.True(t, out.Scan(), "no further line of output")
	return out.Text()
}

// pid reads a process's number from the next line of out.
func pid(t *testing.T, out *bufio.Scanner) int {
	t.Helper()
	n, err := strconv.Atoi(next(t, out))
	require.NoError(t, err)
	return n
}

// runs reports whether there is such a process, and it is not dead.
func runs(pid int) bool {
	state := processState(pid)
	return state != 0 && state != 'Z' && state != 'X'
}

func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, func() bool { return !runs(pid) }, fmt.Sprintf("process %d still runs", pid))
}

// revoke ends every lease at the server, as an operator would.
func revoke(t *testing.T, s *etcdtest.Server) {
	t.Helper()
	c := pb.NewLeaseClient(s.Conn(t))
	all, err := c.LeaseLeases(context.Background(), &pb.LeaseLeasesRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, all.Leases)
	for _, l := range all.Leases {
		_, err := c.LeaseRevoke(context.Background(), &pb.LeaseRevokeRequest{ID: l.ID})
		require.NoError(t, err)
	}
}

func TestALockIsHeldUntilASignal(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	for _, c := range []struct {
		sig            unix.Signal
		args           []string
		held, released string
	}{
		{unix.SIGTERM, nil,
			`^held "hold" key=hold/[0-9a-f]+-1 token=\d+ lease=[0-9a-f]+ ttl=15s until=[\d:.]+ unless renewed, as it is$`, `^released "hold" token=\d+$`},
		{unix.SIGINT, []string{"--json", "--ttl", "20", "--owner", "me"},
			`^{"event":"held","name":"hold","key":"hold/[0-9a-f]+-1","mode":"exclusive","token":\d+,"lease":"[0-9a-f]+","ttl":20,"deadline":"`, `^{"event":"released","name":"hold",`},
	} {
		p := begin(t, s.Addr(), append(append([]string{"lock"}, c.args...), "hold")...)
		out := p.lines()
		assert.Regexp(t, c.held, next(t, out))
		require.NoError(t, p.cmd.Process.Signal(unix.SIGWINCH), "which ends nothing")
		require.NoError(t, p.cmd.Process.Signal(c.sig))
		assert.Regexp(t, c.released, next(t, out))
		assert.Equal(t, 0, p.code(t))
	}
	requireNothingLeft(t, s)
}

func TestCommandIsSentTheSignalsThatPawlGets(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	signals := map[string]unix.Signal{
		"TERM": unix.SIGTERM, "INT": unix.SIGINT, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT,
		"USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2, "WINCH": unix.SIGWINCH,
	}
	// Signals that these tests' parent ignores, as nohup does, are ignored by all of its
	// descendants.
	maps.DeleteFunc(signals, func(_ string, sig unix.Signal) bool { return signal.Ignored(sig) })
	for _, receiver := range []string{"the process that was started", "the process that the key names"} {
		p := begin(t, s.Addr(), "lock", "signals", "--", "sh", "-c", fmt.Sprintf(`
			n=0
			for s in TERM INT HUP QUIT USR1 USR2 WINCH; do trap "echo $s; n=\$((n+1))" $s; done
			echo $PPID
			while [ $n -lt %d ]; do sleep 0.05; done
			exit 5`, len(signals)))
		out := p.lines()
		to, err := strconv.Atoi(next(t, out))
		require.NoError(t, err)
		if receiver == "the process that was started" {
			to = p.cmd.Process.Pid
		}
		for name, sig := range signals {
			require.NoError(t, unix.Kill(to, sig))
			assert.Equal(t, name, next(t, out), receiver)
		}
		assert.Equal(t, 5, p.code(t), "the command's own end")
	}
	requireNothingLeft(t, s)
}

func TestASignalToTheProcessThatTheKeyNamesReachesTheCommand(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "named", "--", "sh", "-c", "echo held; exec sleep 1000")
	next(t, p.lines())
	shown, err := exec.Command("pawl", "show", "--endpoints", s.Addr(), "--json", "named").Output()
	require.NoError(t, err)
	var holder struct{ PID int }
	require.NoError(t, json.Unmarshal(shown, &holder))
	require.NoError(t, unix.Kill(holder.PID, unix.SIGTERM))
	assert.Equal(t, 143, p.code(t))
	requireNothingLeft(t, s)
}

// Its shell then sees what it would see without pawl, whoever sent the INT.
func TestPawlDiesOfTheInterruptThatEndedItsCommand(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	for _, args := range [][]string{{"lock", "int"}, {"elect", "int", "me"}} {
		args = append(args, "--", "sh", "-c", "kill -INT $$")
		p := beginWith(t, s.Addr(), "env", append([]string{"--default-signal=INT", "pawl"}, args...)...)
		p.code(t)
		assert.Equal(t, "signal: interrupt", p.cmd.ProcessState.String(), args)
	}
	requireNothingLeft(t, s)
}

func TestASignalDuringTheResignationDoesNotReplaceTheCommandsCode(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, etcdtest.Start(t).Addr())
	end := filepath.Join(t.TempDir(), "end")
	p := begin(t, proxy.Addr(), "elect", "late", "me", "--", "sh", "-c", `echo $$; until test -e "$0"; do sleep 0.05; done; exit 7`, end)
	command := pid(t, p.lines())
	proxy.BlackHole() // nobody answers the resignation
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	gone(t, command)
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 7, p.code(t))
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := beginWith(t, s.Addr(), "sh", "-c", `trap '' HUP; exec pawl lock ignored -- sh -c 'echo ready; until test -e "$TMPDIR/sent"; do sleep 0.02; done; echo done'`)
	out := p.lines()
	assert.Equal(t, "ready", next(t, out))
	require.NoError(t, p.cmd.Process.Signal(unix.SIGHUP))
	require.NoError(t, os.WriteFile(filepath.Join(p.tmp, "sent"), nil, 0o600))
	assert.Equal(t, "done", next(t, out))
	assert.Equal(t, 0, p.code(t))
}

// lostWithItsLease is what a holder says whose lease was revoked: its watch or a renewal sees it first.
const lostWithItsLease = "own key was deleted|lease is gone at the server"

// ended checks that the command of p was ended because of the loss, with all that it started.
func (p *program) ended(t *testing.T, pids ...int) {
	t.Helper()
	assert.Equal(t, cli.ExitLost, p.code(t))
	assert.Regexp(t, lostWithItsLease, p.stderr.String())
	for _, n := range pids {
		assert.False(t, runs(n), "a process of the command outlived pawl")
	}
}

// TERM comes first. Under the longest TTL, KILL comes 50 s later, and nobody here waits for it.
func TestLossTerminatesTheCommandAndWhatItStarted(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "--ttl", "300", "lost", "--", "sh", "-c", `
		trap 'echo TERM; exit 3' TERM
		setsid sh -c 'echo $$; exec sleep 1000' &
		sleep 1000 & echo $!
		wait; wait`)
	out := p.lines()
	pids := []int{pid(t, out), pid(t, out)}
	revoke(t, s)
	assert.Equal(t, "TERM", next(t, out))
	p.ended(t, pids...)
	requireNothingLeft(t, s)
}

// KILL comes after a sixth of the TTL. What the command does with TERM until then is not judged: it may get
// no CPU.
func TestLossKillsWhatIgnoresTERM(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "lost", "--", "sh", "-c", `
		setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' &
		sleep 1000 & echo $!
		wait; wait`)
	out := p.lines()
	pids := []int{pid(t, out), pid(t, out)}
	revoke(t, s)
	p.ended(t, pids...)
	requireNothingLeft(t, s)
}

func TestTheCommandsTokenIsItsKeysCreateRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	holder := begin(t, s.Addr(), "lock", "token", "--", "sh", "-c", "echo held; exec sleep 1000")
	next(t, holder.lines())
	waiter := begin(t, s.Addr(), "lock", "token", "--", "sh", "-c", `echo "$PAWL_KEY"; echo "$PAWL_TOKEN"; exec sleep 1000`)
	eventually(t, func() bool { return countKeys(t, s) == 4 }, "it does not queue")
	_, err := pb.NewKVClient(s.Conn(t)).Put(context.Background(), &pb.PutRequest{Key: []byte("other")}) // the revision increases
	require.NoError(t, err)
	require.NoError(t, holder.cmd.Process.Signal(unix.SIGTERM))
	out := waiter.lines()
	key, token := next(t, out), pid(t, out)
	r, err := pb.NewKVClient(s.Conn(t)).Range(context.Background(), &pb.RangeRequest{Key: []byte(key)})
	require.NoError(t, err)
	assert.EqualValues(t, r.Kvs[0].CreateRevision, token)
	assert.Greater(t, r.Header.Revision, int64(token))
}

func TestADeletedKeyEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "deleted", "--", "sh", "-c", `echo "$PAWL_KEY"; exec sleep 1000`)
	key := next(t, p.lines())
	_, err := pb.NewKVClient(s.Conn(t)).DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(key)})
	require.NoError(t, err)
	assert.Equal(t, cli.ExitLost, p.code(t))
	assert.Contains(t, p.stderr.String(), "deleted")
	requireNothingLeft(t, s)
}

func TestALockHeldWithoutACommandEndsWithItsLoss(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "bare")
	out := p.lines()
	assert.Contains(t, next(t, out), `held "bare"`)
	revoke(t, s)
	assert.Contains(t, next(t, out), `lost "bare"`)
	assert.Equal(t, cli.ExitLost, p.code(t))
}

func TestKillOfPawlKillsTheCommand(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "killed", "--", "sh", "-c", "echo $$; exec sleep 1000")
	child := pid(t, p.lines())
	require.NoError(t, p.cmd.Process.Kill())
	gone(t, child)
}

// countKeys is how many keys there are.
func countKeys(t *testing.T, s *etcdtest.Server) int64 {
	t.Helper()
	r, err := pb.NewKVClient(s.Conn(t)).Range(context.Background(), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true})
	require.NoError(t, err)
	return r.Count
}

func TestWhatTheCommandStartedRunsOn(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "lock", "daemon", "--", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!")
	left := pid(t, p.lines())
	assert.Equal(t, 0, p.code(t))
	assert.True(t, runs(left))
	require.NoError(t, unix.Kill(left, unix.SIGKILL))
	requireNothingLeft(t, s)
}

// beat writes the time into a file, again and again, whatever signal it gets.
const beat = `trap "" TERM INT HUP; echo $$; while :; do date +%s%N >>"$1"; sleep 0.02; done`

// lastBeat is the last time that a beat wrote.
func lastBeat(t *testing.T, path string) time.Time {
	t.Helper()
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Fields(string(all))
	require.NotEmpty(t, lines)
	ns, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	require.NoError(t, err)
	return time.Unix(0, ns)
}

func TestCommandIsDeadBeforeTheKeyOfACutOffHolderGoes(t *testing.T) {
	t.Parallel()
	for i := range testscale.Of(1, 3) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := etcdtest.Start(t)
			proxy := faultproxy.Start(t, s.Addr())
			dir := t.TempDir()
			script := filepath.Join(dir, "beat")
			require.NoError(t, os.WriteFile(script, []byte(beat), 0o600))
			p := begin(t, proxy.Addr(), "lock", "--ttl", "5", "cut", "--",
				"sh", "-c", fmt.Sprintf(`setsid sh %[1]s %[1]s.far & exec sh %[1]s %[1]s.near`, script))
			out := p.lines()
			pids := []int{pid(t, out), pid(t, out)}

			deleted := watchDeletion(t, s, "cut/")
			time.Sleep(time.Duration(i) * 400 * time.Millisecond) // somewhere between two renewals
			proxy.BlackHole()
			assert.Equal(t, cli.ExitLost, p.code(t))
			at := <-deleted
			for _, end := range []string{".near", ".far"} {
				assert.True(t, lastBeat(t, script+end).Before(at), "the command worked on after its key was deleted")
			}
			for _, n := range pids {
				assert.False(t, runs(n))
			}
			t.Logf("dead %v before the key went", at.Sub(lastBeat(t, script+".far")))
		})
	}
}

// watchDeletion reports when it observes a key under prefix to be deleted.
func watchDeletion(t *testing.T, s *etcdtest.Server, prefix string) <-chan time.Time {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w, err := pb.NewWatchClient(s.Conn(t)).Watch(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(prefix), RangeEnd: []byte(prefix[:len(prefix)-1] + "0"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	}}}))
	_, err = w.Recv() // it is created
	require.NoError(t, err)
	at := make(chan time.Time, 1)
	go func() { // ends with the watch
		if r, err := w.Recv(); err == nil && len(r.Events) > 0 {
			at <- time.Now()
		}
		close(at)
	}()
	return at
}
