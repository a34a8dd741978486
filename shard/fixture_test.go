package shard_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

const ttl = 10 * time.Second

// fixture is, in a bubble, a cluster, workers of the shards of "jobs" on it, and the storage to which
// they write.
type fixture struct {
	*inmemory.Fixture
	f    *etcdfake.Cluster
	n    int
	keys keys.Shards
	all  []*worker

	operator bool // an operator deletes keys of shards, so a holder may write before it learns of that

	mu      sync.Mutex
	moves   []int           // how often work began, by shard
	highest []fencing.Token // the storage's registers
	stored  []int           // its counters
	added   []int           // how much works know that they have added
}

func inBubble(t *testing.T, n int, f func(w *fixture)) {
	t.Helper()
	inmemory.InBubble(t, etcdfake.Options{Members: 3}, func(kit *inmemory.Fixture) {
		k, err := keys.NewShards("", "jobs")
		require.NoError(kit, err)
		w := &fixture{Fixture: kit, f: kit.Cluster, n: n, keys: k,
			moves: make([]int, n), highest: make([]fencing.Token, n), stored: make([]int, n), added: make([]int, n)}
		kit.Cleanup(w.endAll)
		f(w)
	})
}

// worker is a process that calls Run.
type worker struct {
	w      *fixture
	c      *pawl.Client
	net    *network
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	gone   bool // it was killed, or has left

	mu     sync.Mutex
	has    map[int]*shard.Held // the shards that work runs for
	events []shard.Event

	// how its work behaves; set before it runs, or under mu
	ignores bool                  // it ignores the end of its context, until released is closed
	slow    time.Duration         // how long it takes to return
	fails   func(shard int) error // unless nil, work returns its error a moment after it began
	breaks  map[int]error         // by shard, what work returns in the middle
	saves   error                 // what work returns at the end of its context
	freed   chan struct{}

	job func(ctx context.Context, h *shard.Held) error // unless nil, what work does instead of writing
}

// network is one process's connection to the cluster.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (n *network) dial(f *etcdfake.Cluster) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut {
			return nil, &net.OpError{Op: "dial", Net: "fake", Err: net.ErrClosed}
		}
		c, err := f.Dial(ctx, address)
		if err == nil {
			n.conns = append(n.conns, c)
		}
		return c, err
	}
}

// set cuts the process off, or reconnects it.
func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut = cut; cut {
		for _, c := range n.conns {
			_ = c.Close()
		}
		n.conns = nil
	}
}

func (w *fixture) client(dial func(ctx context.Context, address string) (net.Conn, error)) *pawl.Client {
	w.Helper()
	return w.Dial(pawl.Config{}, grpc.WithContextDialer(dial))
}

// start starts a worker.
func (w *fixture) start(opts shard.Options, how ...func(*worker)) *worker {
	w.Helper()
	x := &worker{w: w, net: &network{}, done: make(chan struct{}), has: map[int]*shard.Held{}, freed: make(chan struct{})}
	x.c = w.client(x.net.dial(w.f))
	for _, f := range how {
		f(x)
	}
	if opts.Session.TTL == 0 {
		opts.Session = lease.Options{TTL: ttl}
	}
	told := opts.Notify
	opts.Notify = func(ev shard.Event) {
		x.set(func() { x.events = append(x.events, ev) })
		if told != nil {
			told(ev)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	w.mu.Lock()
	w.all = append(w.all, x)
	w.mu.Unlock()
	go func() { // ends with Run, which endAll waits for
		defer close(x.done)
		x.err = shard.Run(ctx, x.c, "jobs", w.n, opts, x.work)
	}()
	return x
}

// work counts in the storage until its context ends.
func (x *worker) work(ctx context.Context, h *shard.Held) error {
	w, i := x.w, h.Shard()
	resource, token, ok := fencing.FromContext(ctx)
	assert.True(w, ok)
	assert.Equal(w, w.keys.Queue(i).Name, resource)
	assert.Equal(w, h.Token(), token)
	x.mu.Lock()
	assert.Nil(w, x.has[i], "two works for one shard")
	x.has[i] = h
	fails := x.fails
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.has, i)
	}()
	w.mu.Lock()
	w.moves[i]++
	w.mu.Unlock()
	if x.job != nil {
		return x.job(ctx, h)
	}
	if fails != nil && fails(i) != nil {
		time.Sleep(100 * time.Millisecond)
		return fails(i)
	}
	tick := time.NewTicker(97 * time.Millisecond)
	defer tick.Stop()
	for {
		x.write(h)
		select {
		case <-tick.C:
			x.mu.Lock()
			err := x.breaks[i]
			x.mu.Unlock()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			x.mu.Lock()
			slow, ignores, saves := x.slow, x.ignores, x.saves
			x.mu.Unlock()
			if ignores {
				<-x.freed
			}
			time.Sleep(slow)
			x.write(h) // it saves
			return saves
		}
	}
}

// write adds one to a shard's counter, unless the storage refuses it. It fails the test if another
// worker believes that it holds the shard too.
func (x *worker) write(h *shard.Held) {
	w, i := x.w, h.Shard()
	believes := h.Err() == nil && !w.operator
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, other := range all {
		if other != x {
			other.mu.Lock()
			theirs := other.has[i]
			other.mu.Unlock()
			if believes && theirs != nil {
				assert.Error(w, theirs.Err(), "shard %d has two", i)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.Token() < w.highest[i] {
		assert.False(w, believes, "a holder's write to shard %d was refused", i)
		return
	}
	w.highest[i] = h.Token()
	w.stored[i]++
	w.added[i]++
}

// leave ends a worker's Run in order, and waits for it.
func (x *worker) leave() error {
	x.cancel()
	<-x.done
	x.gone = true
	return x.err
}

// kill ends a process, with its connections, and whatever it does.
func (x *worker) kill() {
	x.gone = true
	x.net.set(true)
	x.cancel()
	go func() { _ = x.c.Close() }() // it would dial for the rest of the test; ends with the cleanup's Close
}

func (w *fixture) endAll() {
	for _, x := range w.all {
		x.mu.Lock()
		if x.ignores {
			x.ignores = false
			close(x.freed)
		}
		x.mu.Unlock()
		x.net.set(false)
		x.cancel()
	}
	for _, x := range w.all {
		<-x.done
	}
	assert.Equal(w, w.added, w.stored)
}

// owned are the shards that x works on.
func (x *worker) owned() (all []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.has {
		all = append(all, i)
	}
	slices.Sort(all)
	return all
}

func (x *worker) kinds(k shard.Kind) (all []shard.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range x.events {
		if ev.Kind == k {
			all = append(all, ev)
		}
	}
	return all
}

func (x *worker) set(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// pass lets d pass.
func (w *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// loads are how many shards each live worker works on.
func (w *fixture) loads() (all []int) {
	for _, x := range w.all {
		if !x.gone {
			all = append(all, len(x.owned()))
		}
	}
	return all
}

// shared asserts that every shard has an owner among the live workers, that the owner is the first in
// its queue, and that loads are within one.
func (w *fixture) shared() {
	w.Helper()
	of := make([]int, w.n)
	for _, x := range w.all {
		if !x.gone {
			for _, i := range x.owned() {
				of[i]++
				x.mu.Lock()
				h := x.has[i]
				x.mu.Unlock()
				assert.NoError(w, h.Err())
				assert.Equal(w, []string{h.Key()}, w.f.Keys(w.keys.Queue(i).Prefix))
			}
		}
	}
	assert.Equal(w, slices.Repeat([]int{1}, w.n), of, "how many work on each")
	l := w.loads()
	assert.LessOrEqual(w, slices.Max(l)-slices.Min(l), 1, "%v", l)
}

// plannerKey is the key of the worker that plans.
func (w *fixture) plannerKey() (first string) {
	var create int64
	for _, key := range w.f.Keys(w.keys.Planner().Prefix) {
		if kv := w.f.Get(key); first == "" || kv.CreateRevision < create {
			first, create = key, kv.CreateRevision
		}
	}
	return first
}

// planner is the worker that plans.
func (w *fixture) planner() *worker {
	w.Helper()
	first := w.plannerKey()
	for _, x := range w.all {
		if !x.gone && first != "" && x.lease() == w.keys.Parse(first).Lease {
			return x
		}
	}
	require.Fail(w, "nobody plans")
	return nil
}

// lease is the lease of a worker that has a shard.
func (x *worker) lease() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.has {
		return h.Session().ID()
	}
	return 0
}

// total is how often work began.
func (w *fixture) total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.moves {
		n += m
	}
	return n
}

// writes are the keys, except session keys, that were written or deleted starting at a revision.
func (w *fixture) writes(from int64) (all []string) {
	for _, c := range w.f.History() {
		if c.Revision > from && strings.Contains(c.Key, "//pawl/shard/") {
			all = append(all, c.Key)
		}
	}
	return all
}
