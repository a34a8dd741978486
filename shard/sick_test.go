package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/shard"
)

// minutes are how long most tests look at a fleet, once it has settled.
var minutes = time.Duration(testscale.Of(20, 60)) * time.Minute

// A worker on which all shards fail gets one at a time, to find out whether it is well again.
//
// rule: SH9
func TestAWorkerOnWhichAllShardsFailInterruptsFewOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		opts shard.Options
		work func(ctx context.Context, h *shard.Held) error
		most int // works of the others that it may interrupt in the second hour
	}{
		{"work fails at once", shard.Options{}, failsAfter(0), 7},
		{"work fails after 10 s", shard.Options{}, failsAfter(10 * time.Second), 7},
		{"work fails after 70 s", shard.Options{}, failsAfter(70 * time.Second), 7},
		{"Prepare fails", shard.Options{Prepare: func(context.Context, int) error { return errWork }}, waits, 0},
		{"all is well", shard.Options{}, waits, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 64, func(w *fixture) {
				for range 3 {
					w.add(shard.Options{}, waits)
				}
				w.pass(5 * time.Second)
				bad := w.add(c.opts, c.work)
				w.pass(10 * time.Minute)
				moved, failed := count(shard.Moving, w.all[:3]...), count(shard.Failed, bad)
				w.pass(minutes)
				assert.LessOrEqual(w, count(shard.Moving, w.all[:3]...)-moved, c.most, "works of the others that were interrupted")
				assert.LessOrEqual(w, count(shard.Failed, bad)-failed, 7, "tries of the one that fails")
			})
		})
	}
}

// For a shard that fails wherever it is, no other moves, and the fleet tries it about once a
// minute.
//
// rule: SH10
func TestShardsThatFailEverywhereMoveNoOthers(t *testing.T) {
	for _, c := range []struct {
		poison  int
		at, now int // healthy works that are interrupted in the first 100 s, and later in an hour
	}{{1, 1, 0}, {3, 3, 0}, {20, 12, 0}} {
		for _, workers := range testscale.Of(map[int][]int{1: {2}, 3: {5}, 20: {2}}[c.poison], []int{2, 5}) {
			t.Run(fmt.Sprintf("%d of 100, %d workers", c.poison, workers), func(t *testing.T) {
				inBubble(t, 100, func(w *fixture) {
					var mended atomic.Bool
					work := func(ctx context.Context, h *shard.Held) error {
						if each := 100 / c.poison; h.Shard()%each == 0 && h.Shard()/each < c.poison && !mended.Load() {
							return errWork
						}
						<-ctx.Done()
						return nil
					}
					for range workers {
						w.add(shard.Options{}, work)
					}
					w.pass(100 * time.Second)
					at := count(shard.Moving, w.all...)
					w.pass(10 * time.Minute)
					moving, failed := count(shard.Moving, w.all...), count(shard.Failed, w.all...)
					w.pass(minutes)
					tries := float64(count(shard.Failed, w.all...)-failed) / minutes.Minutes() / float64(c.poison)
					assert.LessOrEqual(w, at, c.at)
					assert.Equal(w, c.now, count(shard.Moving, w.all...)-moving)
					assert.LessOrEqual(w, tries, 1.3)
					assert.Greater(w, tries, 0.7)
					mended.Store(true)
					w.pass(70 * time.Second)
					assert.Zero(w, w.idle(time.Second, seq(100)...), "all run again")
				})
			})
		}
	}
}

// seq is 0 to n-1.
func seq(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// If most workers are sick, none is treated as such.
//
// rule: SH9
func TestAnOutageOfWhatAllNeedExcludesNobody(t *testing.T) {
	inBubble(t, 64, func(w *fixture) {
		var down atomic.Bool
		down.Store(true)
		work := func(ctx context.Context, h *shard.Held) error {
			if down.Load() {
				return errWork
			}
			<-ctx.Done()
			return nil
		}
		for range 4 {
			w.add(shard.Options{}, work)
		}
		w.pass(10 * time.Minute)
		down.Store(false)
		w.pass(65 * time.Second) // the longest wait of a shard, and some
		assert.Zero(w, w.idle(time.Second, seq(64)...))
		w.pass(time.Minute)
		w.shared()
	})
}

// The next planner knows what rests, and lets it rest.
//
// rule: SH10
func TestANewPlannerKnowsWhatRests(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		work := func(ctx context.Context, h *shard.Held) error {
			if h.Shard() == 5 {
				return errWork
			}
			<-ctx.Done()
			return nil
		}
		for range 4 {
			w.add(shard.Options{}, work)
		}
		w.pass(10 * time.Minute)
		moving := count(shard.Moving, w.all...)
		failed := count(shard.Failed, w.all...)
		for range 3 {
			w.f.Delete(w.plannerKey())
			w.pass(3 * time.Minute)
		}
		assert.Equal(w, moving, count(shard.Moving, w.all...))
		assert.LessOrEqual(w, count(shard.Failed, w.all...)-failed, 12)
	})
}

// A shard that rests, and a worker that is sick, are shown as such. Such a shard is not counted as one
// that has no owner.
//
// rule: SH10
func TestWhatRestsIsNoFault(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		work := func(ctx context.Context, h *shard.Held) error {
			if h.Shard() == 5 {
				return errWork
			}
			<-ctx.Done()
			return nil
		}
		var mu sync.Mutex
		var unowned, resting int
		c := w.Dial(pawl.Config{Observer: observe.Func(func(_ context.Context, ev observe.Event) {
			if ev, ok := ev.(observe.ShardsCounted); ok {
				mu.Lock()
				defer mu.Unlock()
				if resting = max(resting, ev.Resting); ev.Unowned > 0 {
					unowned++
				}
			}
		})})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- shard.Run(ctx, c, "jobs", 12, shard.Options{ID: "me"}, work) }() // ends with ctx
		w.add(shard.Options{}, work)
		w.add(shard.Options{}, failsAfter(0))
		w.pass(5 * time.Minute)
		mu.Lock()
		unowned, resting = 0, 0
		mu.Unlock()
		w.pass(5 * time.Minute)
		mu.Lock()
		assert.LessOrEqual(w, unowned, 2, "when the sick one has failed on trial")
		assert.Equal(w, 1, resting)
		mu.Unlock()
		for table, err := range shard.Observe(w.Context(), w.client(w.f.Dial), "jobs") {
			require.NoError(w, err)
			assert.WithinDuration(w, time.Now(), table.Shards[5].Rest.Until, 66*time.Second)
			assert.False(w, table.Shards[5].Rest.Kills)
			assert.Zero(w, table.Shards[4].Rest)
			assert.True(w, slices.ContainsFunc(table.Members, func(m shard.Member) bool { return m.ID == "me" && !m.Sick && !m.Trial }))
			assert.True(w, slices.ContainsFunc(table.Members, func(m shard.Member) bool { return m.ID == "" && (m.Sick || m.Trial) }))
			break
		}
		cancel()
		<-done
	})
}
