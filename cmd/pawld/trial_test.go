package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// The trial: workers in Python settle orders under locks of pawld's, with a store that checks
// tokens, while workers, pawld and etcd are killed, stopped and restarted at random. Nothing is
// lost, and nothing is done twice. Everyday three things happen, once each; in the proof all of
// them, at random. "make trial" sets PAWLD_TRIAL, which is how long, and PAWLD_TRIAL_PAGE, the page
// that the result is written into.
func TestOrdersAreSettledOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("PAWLD_TRIAL"))
	if err != nil {
		length = testscale.Of(0, time.Minute)
	}
	seed := testscale.Seed(t)
	tr := newTrial(t, rand.New(rand.NewPCG(seed, 0)))
	for _, kind := range []string{"worker killed", "pawld killed", "pawld upgraded"} {
		tr.strike(kind)
		tr.goesOn()
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		tr.strike(kinds[tr.rnd.IntN(len(kinds))])
		time.Sleep(tr.some(0, 2*time.Second))
	}
	tr.calm()
	tr.python("close")
	got := tr.python("result")
	t.Log(got)
	var orders, once, refused int
	var wrong string
	_, err = fmt.Sscanf(got, "%d %d %d %s", &orders, &once, &refused, &wrong)
	require.NoError(t, err, got)
	assert.Equal(t, orders, once, "each order is settled once")
	assert.Equal(t, "none", wrong, "accounts whose balance is not the sum of their orders")
	assert.NotZero(t, orders)
	if page := os.Getenv("PAWLD_TRIAL_PAGE"); page != "" && !t.Failed() {
		tr.write(page, length, seed, orders, refused)
	}
}

const (
	workers  = 4
	accounts = 3
)

// A trial is all its processes. One goroutine at a time uses it.
type trial struct {
	t       *testing.T
	rnd     *rand.Rand
	cluster *etcdtest.Cluster
	args    []string
	pawld   *pawld
	store   string
	workers [workers]*exec.Cmd
	strikes map[string]int

	mu   sync.Mutex
	said bytes.Buffer // by the workers
}

// Write implements io.Writer, as the workers' standard error.
func (tr *trial) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.said.Write(b)
}

func newTrial(t *testing.T, rnd *rand.Rand) *trial {
	tr := &trial{t: t, rnd: rnd, cluster: etcdtest.StartCluster(t, 3), store: filepath.Join(t.TempDir(), "orders.db"), strikes: map[string]int{}}
	socket := launch.Socket(t)
	tr.args = []string{
		"--endpoints", strings.Join(tr.cluster.Endpoints(), ","), "--socket", socket,
		"--state-dir", filepath.Join(t.TempDir(), "state"), "--max-ttl", "3s",
	}
	tr.startPawld()
	tr.python("open", strconv.Itoa(accounts), strconv.Itoa(testscale.Of(5_000, 200_000)))
	for i := range tr.workers {
		tr.startWorker(i)
	}
	t.Cleanup(func() {
		for _, w := range tr.workers {
			_ = w.Process.Kill()
			_ = w.Wait()
		}
		if t.Failed() {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			t.Log(tr.said.String())
		}
	})
	return tr
}

func (tr *trial) socket() string { return tr.args[3] }

func (tr *trial) startPawld() {
	tr.pawld = begin(tr.t, tr.args...)
	tr.pawld.waitFor(tr.socket())
}

func (tr *trial) startWorker(i int) {
	python, err := exec.LookPath("python3")
	require.NoError(tr.t, err, "python3 is needed for this test")
	tr.workers[i] = exec.Command(python, "../../clients/python/examples/orders.py", tr.socket(), tr.store)
	tr.workers[i].Stderr = tr
	ownGroup(tr.workers[i])
	require.NoError(tr.t, tr.workers[i].Start())
}

// python looks at the store, or changes it: see trial.py.
func (tr *trial) python(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", append([]string{"testdata/trial.py", tr.store}, args...)...).CombinedOutput()
	require.NoError(tr.t, err, "%v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// kinds are what can happen, the more often the more likely.
var kinds = []string{
	"worker killed", "worker stopped", "worker stopped", "worker stopped", "worker stopped", "pawld killed", "pawld stopped", "pawld upgraded",
	"etcd member killed", "etcd leader stopped", "etcd stopped",
}

func (tr *trial) some(least, most time.Duration) time.Duration {
	return least + time.Duration(tr.rnd.Int64N(int64(most-least)))
}

// strike makes one thing happen, and continues when it has passed.
func (tr *trial) strike(kind string) {
	some := tr.some
	w := tr.rnd.IntN(workers)
	tr.strikes[kind]++
	tr.t.Log(kind)
	switch kind {
	case "worker killed":
		require.NoError(tr.t, tr.workers[w].Process.Kill())
		_ = tr.workers[w].Wait()
		tr.startWorker(w)
	case "worker stopped": // often for longer than its TTL
		w = tr.holder(w)
		require.NoError(tr.t, tr.workers[w].Process.Signal(syscall.SIGSTOP))
		time.Sleep(some(2*time.Second, 8*time.Second))
		require.NoError(tr.t, tr.workers[w].Process.Signal(syscall.SIGCONT))
	case "pawld killed":
		tr.pawld.stop(syscall.SIGKILL)
		if !testscale.Proof() {
			tr.expire()
		}
		tr.startPawld()
	case "pawld stopped":
		tr.pawld.signal(syscall.SIGSTOP)
		time.Sleep(some(time.Second, 9*time.Second))
		tr.pawld.signal(syscall.SIGCONT)
	case "pawld upgraded":
		tr.pawld.stop(syscall.SIGTERM)
		tr.startPawld()
	case "etcd member killed":
		m := tr.cluster.Member(tr.rnd.IntN(3))
		m.Kill()
		time.Sleep(some(0, 2*time.Second))
		m.Start(tr.t)
	case "etcd leader stopped":
		m := tr.cluster.Leader(tr.t)
		m.Pause(tr.t)
		time.Sleep(some(time.Second, 4*time.Second))
		m.Resume(tr.t)
	case "etcd stopped": // for longer than pawld's session lasts, at times
		for _, m := range tr.cluster.Members() {
			m.Pause(tr.t)
		}
		time.Sleep(some(time.Second, 8*time.Second))
		for _, m := range tr.cluster.Members() {
			m.Resume(tr.t)
		}
	}
	require.False(tr.t, tr.pawld.ended(), tr.pawld.said())
}

// expire ends all leases now, as their TTL does a little later. Workers whose validity has not run out meanwhile
// write late, and the store refuses that.
func (tr *trial) expire() {
	leases := etcdpb.NewLeaseClient(tr.cluster.Member(0).Conn(tr.t))
	all, err := leases.LeaseLeases(tr.t.Context(), &etcdpb.LeaseLeasesRequest{})
	require.NoError(tr.t, err)
	for _, l := range all.Leases {
		_, err := leases.LeaseRevoke(tr.t.Context(), &etcdpb.LeaseRevokeRequest{ID: l.ID})
		require.NoError(tr.t, err)
	}
}

// holder is a worker that holds an account now, as pawld lists it; w where nobody does.
func (tr *trial) holder(w int) int {
	client := unixClient(tr.socket())
	client.Timeout = 2 * time.Second
	_, out, err := post(client, api+"List", "{}")
	queues, _ := out["queues"].([]any)
	if err != nil || len(queues) == 0 {
		return w
	}
	entries := queues[tr.rnd.IntN(len(queues))].(object)["entries"].([]any)
	for i, worker := range tr.workers {
		owner, _ := entries[0].(object)["owner"].(string)
		if strings.Contains(owner, fmt.Sprintf(`worker %d"`, worker.Process.Pid)) {
			return i
		}
	}
	return w
}

// goesOn waits until orders are settled again.
func (tr *trial) goesOn() {
	tr.python("more")
}

// calm waits until what was under way has ended.
func (tr *trial) calm() {
	tr.goesOn()
	for _, w := range tr.workers {
		_ = w.Process.Signal(syscall.SIGTERM)
		if err := w.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			require.NoError(tr.t, err)
		}
	}
}

// mark is where the result stands in its page.
const mark = "<!-- pawld trial -->\n"

func (tr *trial) write(page string, length time.Duration, seed uint64, orders, refused int) {
	text, err := os.ReadFile(page)
	require.NoError(tr.t, err)
	before, after, ok := strings.Cut(string(text), mark)
	require.True(tr.t, ok, "%s has no mark", page)
	n := 0
	for _, c := range tr.strikes {
		n += c
	}
	line := fmt.Sprintf("On %s, with %d workers, for %v, from seed %d: %d orders settled, each once; strikes: %d; late writes that the store refused: %d. **Lost or settled twice: 0.**\n",
		time.Now().Format(time.DateOnly), workers, length, seed, orders, n, refused)
	if !strings.HasPrefix(after, "\n") { // an older result
		_, after, _ = strings.Cut(after, "\n\n")
		after = "\n" + after
	}
	require.NoError(tr.t, os.WriteFile(page, []byte(before+mark+line+after), 0o644))
}
