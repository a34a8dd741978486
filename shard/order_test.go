package shard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/shard"
)

// Whatever happens, each Acquired is followed by any number of Moving, perhaps by Failed, and by one
// Released or Lost before the next Acquired of that shard. Observers learn of the same holds.
func TestEventsComeInTheirOrder(t *testing.T) {
	first := testscale.Seed(t)
	for i := range uint64(testscale.Of(4, 200)) {
		inBubble(t, 8, func(w *fixture) { w.inOrder(rand.New(rand.NewPCG(first+i, 3))) })
	}
}

func (w *fixture) inOrder(r *rand.Rand) {
	w.Helper()
	w.operator = r.IntN(2) == 0
	recorders := map[*worker]*recorder{}
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	begin := func() {
		rec := &recorder{}
		opts := shard.Options{Moves: r.IntN(3), Overrun: time.Duration(r.IntN(3)) * 2 * time.Second,
			Session: lease.Options{TTL: ttl / time.Duration(1+r.IntN(2)), LockDelay: time.Duration(r.IntN(2)) * time.Second}}
		if r.IntN(2) == 0 {
			opts.Prepare = func(_ context.Context, i int) error {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				if i == 5 {
					return errors.New("no")
				}
				return nil
			}
		}
		x := w.start(opts, observedBy(rec), func(x *worker) { x.slow, x.breaks = upTo(4*time.Second), map[int]error{} })
		recorders[x] = rec
	}
	for range 3 {
		begin()
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); w.pass(upTo(3 * time.Second)) {
		x := w.all[r.IntN(len(w.all))]
		lease, owned := x.lease(), x.owned()
		switch r.IntN(10) {
		case 0:
			if len(w.all) < 8 {
				begin()
			}
		case 1:
			if r.IntN(3) == 0 {
				x.cancel()
			}
		case 2:
			if w.operator {
				continue
			}
			x.net.set(true)
			time.AfterFunc(upTo(2*ttl), func() { x.net.set(false) })
		case 3:
			if lease != 0 && w.operator {
				w.f.Revoke(lease)
			}
		case 4, 5: // work fails, or releases
			if len(owned) > 0 {
				i := owned[r.IntN(len(owned))]
				x.mu.Lock()
				h := x.has[i]
				x.mu.Unlock()
				if r.IntN(2) == 0 && h != nil {
					_ = h.Release(w.Context())
				}
				x.set(func() { x.breaks[i] = errors.New("no") })
				time.AfterFunc(upTo(3*time.Second), func() { x.set(func() { delete(x.breaks, i) }) })
			}
		case 6:
			if len(owned) > 0 && w.operator {
				x.mu.Lock()
				h := x.has[owned[0]]
				x.mu.Unlock()
				if h != nil && r.IntN(2) == 0 {
					w.f.Delete(h.Key())
				} else if h != nil {
					w.f.Put(h.Key(), "somebody else's", 0)
				}
			}
		case 7:
			if lease != 0 {
				wish := shards.Set{}
				for i := range w.n {
					if r.IntN(2) == 0 {
						wish.Add(i)
					}
				}
				w.f.Put(w.keys.Wish(lease), string(wish.Encode()), lease)
			}
		case 8:
			op := []string{"release", "hand off", "enqueue", "write a wish", "read who still waits for a shard"}[r.IntN(5)]
			fault := etcdfake.Rule{Op: op, Times: 1 + r.IntN(4)}
			switch r.IntN(4) {
			case 0:
				fault.Lose = true
			case 1:
				fault.HoldAnswer = upTo(6 * time.Second)
			case 2:
				fault.Delay = upTo(6 * time.Second)
			case 3:
				fault.Err = status.Error(codes.PermissionDenied, "etcdserver: permission denied")
			}
			w.f.Inject(fault)
		case 9:
			w.f.SetNoSpace(true)
			time.AfterFunc(upTo(5*time.Second), func() { w.f.SetNoSpace(false) })
		}
	}
	w.pass(2 * ttl)
	w.f.LiftAll()
	for _, x := range w.all {
		x.cancel()
	}
	for _, x := range w.all {
		select {
		case <-x.done:
		case <-time.After(time.Minute):
			x.set(func() { assert.Fail(w, "Run does not return", "%v", x.events) })
			return
		}
		x.gone = true
		held := w.ordered(x)
		var observed, ended []fencing.Token
		for _, ev := range recorders[x].take() {
			switch ev := ev.(type) {
			case observe.ShardHeld:
				observed = append(observed, ev.Token)
			case observe.ShardEnded:
				ended = append(ended, ev.Token)
			}
		}
		assert.ElementsMatch(w, held, observed)
		assert.ElementsMatch(w, held, ended)
	}
}

// ordered asserts the order of a worker's events, and returns the tokens of its holds.
func (w *fixture) ordered(x *worker) (all []fencing.Token) {
	w.Helper()
	open, failed := map[int]fencing.Token{}, map[int]bool{}
	for _, ev := range x.events {
		switch ev.Kind {
		case shard.Joined, shard.Retrying:
			assert.Equal(w, -1, ev.Shard)
			assert.Zero(w, ev.Token)
			continue
		case shard.Acquired:
			assert.Zero(w, open[ev.Shard], "%v", x.events)
			open[ev.Shard], failed[ev.Shard] = ev.Token, false
			all = append(all, ev.Token)
		case shard.Moving:
			assert.False(w, failed[ev.Shard], "%v", x.events)
		case shard.Failed:
			if ev.Token == 0 {
				assert.Zero(w, open[ev.Shard], "%v", x.events)
				continue
			}
			assert.False(w, failed[ev.Shard], "%v", x.events)
			failed[ev.Shard] = true

		}
		assert.Equal(w, open[ev.Shard], ev.Token, "%v: %v", ev.Kind, x.events)
		assert.NotZero(w, ev.Token)
		if ev.Kind == shard.Released || ev.Kind == shard.Lost {
			delete(open, ev.Shard)
		}
	}
	assert.Empty(w, open, "%v", x.events)
	return all
}
