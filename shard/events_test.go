package shard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/shard"
)

// recorder is an observer that keeps the events of shards. It can hang at an event.
type recorder struct {
	mu   sync.Mutex
	all  []observe.Event
	hang func(observe.Event) <-chan struct{}
}

func (r *recorder) Observe(_ context.Context, ev observe.Event) {
	switch ev.(type) {
	case observe.ShardHeld, observe.ShardEnded, observe.ShardsCounted, observe.ShardsPlanned:
	default:
		return
	}
	r.mu.Lock()
	r.all = append(r.all, ev)
	hang := r.hang
	r.mu.Unlock()
	if hang != nil {
		if until := hang(ev); until != nil {
			<-until
		}
	}
}

func (r *recorder) take() (all []observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// but is take without the counts, whose times are not defined.
func (r *recorder) but() (all []observe.Event) {
	for _, ev := range r.take() {
		if c, counted := ev.(observe.ShardsCounted); !counted || c.Left {
			all = append(all, ev)
		}
	}
	return all
}

// observedBy has a worker's client report to r.
func observedBy(r *recorder) func(*worker) {
	return func(x *worker) {
		x.c = x.w.Dial(pawl.Config{Observer: r}, grpc.WithContextDialer(x.net.dial(x.w.f)))
	}
}

func TestTheObserverLearnsOfShards(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		r := &recorder{}
		x := w.start(shard.Options{}, observedBy(r))
		w.pass(2 * time.Second)
		lease := x.lease()
		which := func(i int) observe.Shard {
			return observe.Shard{Name: "jobs", Shard: i, Token: x.has[i].Token(), Lease: lease}
		}
		got := r.but()
		assert.Equal(w, observe.ShardsPlanned{Name: "jobs", Lease: lease, Wishes: 1, Waited: time.Second}, got[0])
		assert.ElementsMatch(w, []observe.Event{observe.ShardHeld{Shard: which(0)}, observe.ShardHeld{Shard: which(1)}}, got[1:])
		w.pass(ttl)
		assert.Contains(w, r.take(), observe.ShardsCounted{Name: "jobs", Lease: lease, Shards: 2, Held: 2})

		x.set(func() { x.slow = 700 * time.Millisecond })
		moving := [2]observe.Shard{which(0), which(1)}
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		moved := x.kinds(shard.Moving)[0].Shard
		got = r.but()
		require.Len(w, got, 2)
		assert.Equal(w, observe.ShardsPlanned{Name: "jobs", Lease: lease, Wishes: 2, Waited: time.Second}, got[0])
		assert.Equal(w, observe.ShardEnded{Shard: moving[moved], Why: observe.ShardMoved, Took: 700 * time.Millisecond}, got[1])

		require.True(w, w.f.Delete(x.has[1-moved].Key()))
		w.pass(time.Second)
		got = r.but()
		assert.Equal(w, observe.ShardLost, got[0].(observe.ShardEnded).Why)
		assert.ErrorIs(w, got[0].(observe.ShardEnded).Err, lock.ErrKeyDeleted)
		w.pass(4 * time.Second)
		w.shared()
		r.but()
		require.Error(w, x.leave())
		got = r.but()
		assert.Equal(w, observe.ShardLeft, got[0].(observe.ShardEnded).Why)
		assert.Equal(w, observe.ShardsCounted{Name: "jobs", Lease: lease, Shards: 2, Left: true}, got[len(got)-1])
	})
}

// Work releases the shard, and then the worker's wish has it again, or its session ends meanwhile.
func TestAShardThatWorkReleasesIsReportedOnce(t *testing.T) {
	for name, then := range map[string]func(w *fixture, lease int64){
		"wished again":      func(w *fixture, lease int64) { w.f.Put(w.keys.Wish(lease), string(shards.SetOf(0).Encode()), lease) },
		"its session ended": func(w *fixture, lease int64) { w.f.Revoke(lease) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *fixture) {
				w.f.Inject(etcdfake.Rule{Op: "write a wish", Skip: 1, Lose: true})
				ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
				defer cancel()
				var events []shard.Event
				var lease atomic.Int64
				time.AfterFunc(3*time.Second, func() { // another worker waits, and the wish no longer has the shard
					w.f.Put(w.keys.Queue(0).Prefix+"foreign", "", 0)
					w.f.Put(w.keys.Wish(lease.Load()), "", lease.Load())
				})
				time.AfterFunc(4*time.Second, func() { then(w, lease.Load()) })
				opts := shard.Options{Notify: func(ev shard.Event) { events = append(events, ev) }}
				err := shard.Run(ctx, w.client(w.f.Dial), "jobs", 1, opts, func(ctx context.Context, h *shard.Held) error {
					lease.Store(h.Session().ID())
					<-ctx.Done()
					assert.NoError(w, h.Release(context.Background()))
					time.Sleep(2 * time.Second)
					return nil
				})
				assert.ErrorIs(w, err, context.DeadlineExceeded)
				kinds := map[shard.Kind]int{}
				for _, ev := range events {
					kinds[ev.Kind]++
				}
				assert.Equal(w, []int{1, 1, 0}, []int{kinds[shard.Acquired], kinds[shard.Released], kinds[shard.Lost]}, "%v", events)
				w.f.Delete(w.keys.Queue(0).Prefix + "foreign")
			})
		})
	}
}

// If nobody plans, the counts of the workers show it.
func TestACountShowsWhatNobodyHasAndNobodyPlans(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.f.Put(w.keys.Planner().Prefix+"foreign", "", 0)
		r := &recorder{}
		w.start(shard.Options{Weight: -1}, observedBy(r))
		w.pass(3*ttl + 2*time.Second)
		got := r.take()
		require.GreaterOrEqual(w, len(got), 2)
		last := got[len(got)-1].(observe.ShardsCounted)
		assert.Equal(w, 6, last.Unowned)
		assert.Greater(w, last.Unplanned, ttl)
		w.f.Delete(w.keys.Planner().Prefix + "foreign")
		w.start(shard.Options{})
		w.pass(ttl + 3*time.Second)
		got = r.take()
		last = got[len(got)-1].(observe.ShardsCounted)
		assert.Equal(w, observe.ShardsCounted{Name: "jobs", Lease: last.Lease, Shards: 6}, last)
	})
}

// A foreign key that is first in a shard's queue is no owner.
func TestAShardThatAForeignKeyHoldsUpHasNoOwner(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		r := &recorder{}
		x := w.start(shard.Options{}, observedBy(r))
		w.pass(3 * time.Second)
		foreign := w.keys.Queue(3).Prefix + "readme"
		w.f.Put(foreign, "", 0)
		require.True(w, w.f.Delete(x.has[3].Key()))
		w.pass(3 * ttl)
		got := r.take()
		assert.Equal(w, 1, got[len(got)-1].(observe.ShardsCounted).Unowned)
		require.True(w, w.f.Delete(foreign))
		w.pass(2 * ttl)
		w.shared()
		got = r.take()
		assert.Zero(w, got[len(got)-1].(observe.ShardsCounted).Unowned)
	})
}

// A planner whose loop has not turned for a TTL resigns, and the next one plans.
// rule: SH3
func TestAPlannerThatIsStuckResigns(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		stuck := make(chan struct{})
		r := &recorder{hang: func(ev observe.Event) <-chan struct{} {
			if p, ok := ev.(observe.ShardsPlanned); ok && p.Waited > 0 {
				return stuck
			}
			return nil
		}}
		w.start(shard.Options{Weight: -1}, observedBy(r))
		w.pass(500 * time.Millisecond)
		w.start(shard.Options{})
		w.start(shard.Options{})
		w.pass(ttl)
		assert.Equal(w, []int{0, 0, 0}, w.loads())
		w.pass(ttl/4 + 3*time.Second) // the interval at which it is checked that the loop turns
		assert.Equal(w, []int{0, 3, 3}, w.loads())
		assert.Len(w, w.f.Keys(w.keys.Planner().Prefix), 2)
		close(stuck)
		w.pass(time.Minute)
		assert.Equal(w, []int{0, 3, 3}, w.loads())
		assert.Len(w, w.f.Keys(w.keys.Planner().Prefix), 3, "when it turns again it is a candidate again")
	})
}

// A Run reports once that it has left.
func TestARunThatEndsReportsOnceThatItHasLeft(t *testing.T) {
	for name, end := range map[string]func(x *worker){
		"its client is closed": func(x *worker) { _ = x.c.Close() },
		"its session ends as it leaves": func(x *worker) {
			lease := x.lease()
			x.cancel()
			x.w.f.Revoke(lease)
		},
		"leaves": func(x *worker) { x.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(w *fixture) {
				r := &recorder{}
				x := w.start(shard.Options{}, observedBy(r))
				w.pass(3 * time.Second)
				end(x)
				<-x.done
				x.gone = true
				left := 0
				for _, ev := range r.take() {
					if c, counted := ev.(observe.ShardsCounted); counted && c.Left {
						left++
					}
				}
				assert.Equal(w, 1, left)
			})
		})
	}
}

// If a shard is kept after ErrMoved, that is not the reason for its later end.
func TestAShardThatWasKeptEndsForAReasonOfItsOwn(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		r := &recorder{}
		x := w.start(shard.Options{}, observedBy(r), func(x *worker) { x.slow, x.saves = 3*time.Second, errors.New("not saved") })
		w.pass(3 * time.Second)
		lease, foreign := x.lease(), w.keys.Queue(0).Prefix+"foreign"
		w.f.Inject(etcdfake.Rule{Op: "write a wish", Lose: true})
		w.f.Put(foreign, "", 0)
		w.f.Put(w.keys.Wish(lease), "", lease)
		w.pass(time.Second)
		require.Len(w, x.kinds(shard.Moving), 1)
		w.f.Delete(foreign)
		w.pass(4 * time.Second)
		require.Equal(w, []int{0}, x.owned())
		w.f.Delete(x.has[0].Key())
		w.pass(time.Second)
		var ended []observe.ShardEnded
		for _, ev := range r.take() {
			if e, ok := ev.(observe.ShardEnded); ok {
				ended = append(ended, e)
			}
		}
		require.Len(w, ended, 1)
		assert.Zero(w, ended[0].Took)
	})
}

// hangingAtPlans holds up a planner that has planned, while hangs is true, until stuck is closed.
func hangingAtPlans(hangs *atomic.Bool, stuck <-chan struct{}) *recorder {
	return &recorder{hang: func(ev observe.Event) <-chan struct{} {
		if _, ok := ev.(observe.ShardsPlanned); ok && hangs.Load() {
			return stuck
		}
		return nil
	}}
}

// The worker leaves nevertheless, before the term is given up and afterwards, and Run returns when the
// loop turns again.
func TestAPlannerThatIsStuckLeaves(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 2 * ttl} {
		inBubble(t, 6, func(w *fixture) {
			hangs, stuck := new(atomic.Bool), make(chan struct{})
			x := w.start(shard.Options{}, observedBy(hangingAtPlans(hangs, stuck)))
			w.pass(3 * time.Second)
			hangs.Store(true)
			w.start(shard.Options{})
			w.pass(2*time.Second + after)
			x.cancel()
			w.pass(ttl + ttl/4 + 3*time.Second)
			assert.Equal(w, []int{0, 6}, w.loads())
			for i := range w.n {
				assert.Less(w, w.gap(i), 100*time.Millisecond)
			}
			close(stuck)
			w.pass(time.Second)
			assert.Error(w, x.leave())
			w.shared()
		})
	}
}

// An observer that holds up the loop that plans does not keep the worker from a new session.
func TestAPlannerThatIsStuckWorksOnANewSession(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		hangs, stuck := new(atomic.Bool), make(chan struct{})
		x := w.start(shard.Options{}, observedBy(hangingAtPlans(hangs, stuck)))
		w.pass(3 * time.Second)
		hangs.Store(true)
		w.start(shard.Options{})
		w.pass(3 * time.Second)
		hangs.Store(false)
		w.f.Revoke(x.lease())
		w.pass(ttl)
		w.shared()
		hangs.Store(true)
		x.cancel()
		w.pass(3 * time.Second)
		assert.Equal(w, []int{0, 4}, w.loads())
		close(stuck)
		assert.Error(w, x.leave())
		w.pass(time.Second)
		assert.Len(w, w.f.Leases(), 1)
	})
}
