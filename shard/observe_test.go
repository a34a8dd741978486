package shard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

// observed is what Observe yields, on a separate client.
type observed struct {
	mu   sync.Mutex
	all  []shard.Table
	err  error
	done chan struct{}
}

func (w *fixture) observe() *observed {
	o := &observed{done: make(chan struct{})}
	c := w.client(w.f.Dial)
	ctx, cancel := context.WithCancel(context.Background())
	w.Cleanup(func() { cancel(); <-o.done })
	go func() { // ends with ctx
		defer close(o.done)
		for t, err := range shard.Observe(ctx, c, "jobs") {
			o.mu.Lock()
			if err != nil {
				o.err = err
			} else {
				o.all = append(o.all, t)
			}
			o.mu.Unlock()
		}
	}()
	return o
}

func (o *observed) last() shard.Table {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[len(o.all)-1]
}

func TestObserveShowsWhoWorksOnWhat(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		o := w.observe()
		w.pass(time.Second)
		assert.Empty(w, o.last().Shards)
		assert.Empty(w, o.last().Members)
		a := w.start(shard.Options{Value: []byte("10.0.0.1:80"), Weight: 2})
		w.pass(500 * time.Millisecond)
		assert.Len(w, o.last().Shards, 6)
		assert.Positive(w, o.last().Unplanned)
		w.pass(3 * time.Second)
		b := w.start(shard.Options{})
		w.pass(4 * time.Second)
		table := o.last()
		assert.Zero(w, table.Unplanned)
		assert.Equal(w, []shard.Member{
			{Lease: a.lease(), Value: []byte("10.0.0.1:80"), Weight: 2, Plans: true, Held: 4, Wished: 4},
			{Lease: b.lease(), Weight: 1, Held: 2, Wished: 2},
		}, table.Members)
		for _, x := range []*worker{a, b} {
			for i, h := range x.has {
				assert.Equal(w, shard.Owner{Lease: x.lease(), Token: h.Token(), Value: table.Shards[i].Value}, table.Shards[i])
				assert.Equal(w, x == a, string(table.Shards[i].Value) == "10.0.0.1:80")
			}
		}
		a.set(func() { a.ignores = true })
		go a.cancel()
		w.pass(3 * time.Second)
		assert.True(w, o.last().Members[0].Leaving)
		next := 0
		for _, s := range o.last().Shards {
			if s.Next == b.lease() {
				assert.Equal(w, a.lease(), s.Lease)
				next++
			}
		}
		assert.Equal(w, 4, next)
	})
}

// If nobody plans, Unplanned shows it early enough for an alert.
func TestObserveSaysForHowLongAChangeHasWaited(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		o := w.observe()
		w.pass(time.Second)
		w.f.Inject(etcdfake.Rule{Op: "write a wish", Forge: func(etcdfake.Request) (etcdapi.Message, error) {
			return nil, status.Error(codes.Unavailable, "etcdserver: no leader")
		}})
		w.start(shard.Options{})
		w.pass(30 * time.Second)
		assert.InDelta(w, 30*time.Second, o.last().Unplanned, float64(2*time.Second))
		w.f.LiftAll()
		w.pass(5 * time.Second)
		assert.Zero(w, o.last().Unplanned)
		w.shared()
	})
}

func TestObserveReadsAgainAfterAGapAndWhenTheNumberChanges(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		o := w.observe()
		w.pass(time.Second)
		for _, x := range w.all {
			x.cancel()
		}
		for _, x := range w.all {
			_ = x.leave()
		}
		w.n = 9
		w.moves, w.highest, w.stored, w.added = make([]int, 9), nil, make([]int, 9), make([]int, 9)
		w.highest = append(w.highest, make([]fencing.Token, 9)...)
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		assert.Len(w, o.last().Shards, 9)
		for i := range w.f.Members() {
			w.f.Member(i).EndStreams("Watch", status.Error(codes.Unavailable, "gone"))
		}
		fault := w.f.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: status.Error(codes.Unavailable, "no")})
		w.start(shard.Options{})
		w.pass(2 * time.Second)
		w.f.Compact(w.f.Revision())
		fault.Lift()
		w.pass(30 * time.Second)
		w.shared()
		assert.Len(w, o.last().Members, 2)
	})
}

func TestObserveEndsWithAnErrorOnce(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		c := w.client(w.f.Dial)
		errs := 0
		for _, err := range shard.Observe(w.Context(), c, "jobs") {
			if err == nil {
				_ = c.Close()
				continue
			}
			errs++
			assert.ErrorIs(w, err, lease.ErrClosed)
		}
		assert.Equal(w, 1, errs)
		for _, err := range shard.Observe(w.Context(), w.client(w.f.Dial), "") {
			require.ErrorContains(w, err, "empty name")
		}
	})
}

// This includes an Observe that has followed the workers until the last one left.
func TestObserveShowsNoShardsWhileThereIsNoWorker(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		o := w.observe()
		w.pass(time.Second)
		assert.Len(w, o.last().Shards, 6)
		for _, x := range w.all {
			x.cancel()
		}
		for _, x := range w.all {
			require.Error(w, x.leave())
		}
		w.pass(time.Second)
		assert.Empty(w, o.last().Members)
		assert.Empty(w, o.last().Shards)
	})
}
