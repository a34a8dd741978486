package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// progresses reports progress each second until its context ends.
func progresses(ctx context.Context, h *shard.Held) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
			_ = h.Progress()
		}
	}
}

// A shard whose work hangs is lost, and another worker gets it while the work still hangs, which Notify and
// the log name.
//
// rule: H6
func TestAShardWhoseWorkHangsGoesToAnotherWorker(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		freed := make(chan struct{})
		var mu sync.Mutex
		hangs := map[int]time.Time{}
		log := new(inmemory.Log)
		o := shard.Options{Stall: 20 * time.Second}
		bad := w.start(o, func(x *worker) {
			x.c = w.Dial(pawl.Config{Logger: log.Logger()})
			x.job = func(ctx context.Context, h *shard.Held) error {
				if h.Shard() != 3 {
					return progresses(ctx, h)
				}
				mu.Lock()
				hangs[h.Shard()] = time.Now()
				mu.Unlock()
				<-freed
				assert.Error(w, ctx.Err())
				assert.ErrorIs(w, h.Progress(), lock.ErrStalled)
				return nil
			}
		})
		w.pass(5 * time.Second)
		good := w.add(o, progresses)
		w.pass(2 * time.Minute)
		mu.Lock()
		began, hung := hangs[3]
		mu.Unlock()
		require.True(w, hung)
		lost := bad.kinds(shard.Lost)
		require.Len(w, lost, 1)
		assert.Equal(w, 3, lost[0].Shard)
		assert.ErrorIs(w, lost[0].Err, lock.ErrStalled)
		assert.ErrorIs(w, lost[0].Err, lock.ErrLost)
		assert.Contains(w, lost[0].Err.Error(), "shard_test.")
		assert.Contains(w, lost[0].Err.Error(), " still runs")
		assert.Equal(w, 1, log.Warnings(`msg="shards: work still runs after the loss of its shard" name=jobs shard=3 runs=`))
		assert.Contains(w, good.owned(), 3)
		assert.Greater(w, time.Since(began), 20*time.Second)
		assert.Zero(w, w.idle(time.Minute, seq(6)...), "all have a worker")
		assert.Empty(w, good.kinds(shard.Lost))
		close(freed)
		w.pass(time.Minute)
		assert.NotContains(w, bad.owned(), 3, "the other works on it")
	})
}

// The time counts from each call of work, and does not while none runs.
//
// rule: H6
func TestAShardsStallCountsFromEachCallOfWork(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		var mu sync.Mutex
		var began []time.Time
		w.add(shard.Options{Stall: 5 * time.Second}, func(ctx context.Context, h *shard.Held) error {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			assert.Equal(w, 5*time.Second, time.Until(h.Deadline()))
			time.Sleep(4 * time.Second)
			assert.NoError(w, h.Progress())
			<-ctx.Done()
			assert.ErrorIs(w, h.Err(), lock.ErrStalled)
			return nil
		})
		w.pass(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.Greater(w, len(began), 2, "the worker is alone, so it tries again")
		for i := 1; i < len(began); i++ {
			assert.Greater(w, began[i].Sub(began[i-1]), 9*time.Second)
		}
	})
}

// A worker on which three shards hang is sick: it gets one at a time, and the others work on all else, as when
// its works fail. It is well again once a work makes progress for longer than a Stall takes to show.
//
// rule: SH9
func TestAWorkerOnWhichThreeShardsHangIsSick(t *testing.T) {
	for _, stall := range []time.Duration{20 * time.Second, 3 * time.Minute} {
		for _, returns := range []bool{true, false} {
			t.Run(fmt.Sprintf("Stall %v, works return: %v", stall, returns), func(t *testing.T) {
				inBubble(t, 24, func(w *fixture) {
					freed, mended := make(chan struct{}), false
					o := shard.Options{Stall: stall}
					for range 3 {
						w.add(o, progresses)
					}
					w.pass(5 * time.Second)
					bad := w.add(o, func(ctx context.Context, h *shard.Held) error {
						switch {
						case mended:
							return progresses(ctx, h)
						case returns:
							<-ctx.Done()
						default:
							<-freed
						}
						return nil
					})
					w.pass(10*time.Minute + 3*stall)
					if returns {
						assert.LessOrEqual(w, len(bad.owned()), 1, "it is on trial")
					}
					moved, lost := count(shard.Moving, w.all[:3]...), count(shard.Lost, bad)
					w.pass(minutes)
					assert.LessOrEqual(w, count(shard.Moving, w.all[:3]...)-moved, 7, "works of the others that were interrupted")
					assert.LessOrEqual(w, count(shard.Lost, bad)-lost, 7, "tries of the one that hangs")
					assert.Zero(w, count(shard.Lost, w.all[:3]...))
					mended = true
					close(freed)
					w.pass(40 * time.Minute)
					w.pass(stall)
					synctest.Wait()
					assert.Equal(w, 6, len(bad.owned()), "it is well again")
				})
			})
		}
	}
}

func TestRunRefusesAStallBelowASecond(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		err := shard.Run(w.Context(), w.Client(), "jobs", 1, shard.Options{Stall: time.Second - 1}, waits)
		assert.EqualError(w, err, `shard: run "jobs": Options.Stall is 999.999999ms, want 0 or at least 1s`)
	})
}
