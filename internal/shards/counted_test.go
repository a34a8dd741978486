package shards

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// rule: SH6
func TestAFleetListsTheKeysAboutAsOftenAsOneWorker(t *testing.T) {
	lists := func(workers, keys int) (n int) {
		var all []*Worker
		for range workers {
			all = append(all, NewWorker(1000, Member{Weight: 1}, 10*time.Second, time.Second, 0))
		}
		for range 800 {
			for _, w := range all {
				if w.Counted(keys, workers, nil) {
					n++
				}
			}
		}
		return n
	}
	assert.Equal(t, 100, lists(1, 1000), "every eighth time")
	assert.InDelta(t, 100, lists(100, 1000), 60)
	assert.InDelta(t, 800, lists(100, 1001), 200, "one key too many may hide that one is missing")
	assert.Equal(t, 799, lists(1, 999), "one is missing")
}

// rule: SH6
func TestPoisonIsNotMissing(t *testing.T) {
	w := NewWorker(10, Member{Weight: 1}, 10*time.Second, time.Second, 0)
	w.Draw = func(int) int { return 1 }
	for range 20 {
		assert.False(t, w.Counted(8, 1, SetOf(3, 4)))
	}
	w.Counted(7, 1, SetOf(3, 4))
	assert.True(t, w.Counted(7, 1, SetOf(3, 4)))
	now := time.Unix(1000, 0)
	w.Joined(now)
	w.Counted(7, 1, SetOf(3, 4))
	for range 2 {
		w.Listed(now.Add(time.Minute), SetOf(3, 4, 5), 10)
	}
	assert.Equal(t, []Action{{Try, 5}}, w.Next(now.Add(time.Minute)))
}

// While a shard has nobody, and nobody can take it, what the workers read must not grow with the square
// of their number either.
// rule: SH6
func TestAFleetThatCannotTakeAShardListsTheKeysAboutAsOftenAsOneWorker(t *testing.T) {
	const workers, counts = 50, 800
	now := time.Unix(1_000_000, 0)
	lists := 0
	for range workers {
		w := NewWorker(100, Member{Weight: -1}, 10*time.Second, time.Second, 0)
		w.Joined(now)
		for i := range counts {
			if w.Counted(99, workers, nil) {
				lists++
				w.Listed(now.Add(time.Duration(i)*w.TTL), SetOf(7), 0)
			}
		}
	}
	assert.LessOrEqual(t, lists, 2*counts)
	assert.GreaterOrEqual(t, lists, counts/2)
}

// rule: SH6
func TestAWorkerThatMayTakeShardsAgainListsTheKeysAtOnce(t *testing.T) {
	for name, again := range map[string]func(w *Worker, now time.Time){
		"it joins":  func(w *Worker, now time.Time) { w.Joined(now) },
		"undrained": func(w *Worker, _ time.Time) { w.Drain(true); w.Drain(false) },
		"all owned": func(w *Worker, now time.Time) { w.Listed(now, nil, 0) },
		"it is well": func(w *Worker, now time.Time) {
			w.health.is, w.health.last = Trial, now
			w.Acquired(now, 3)
			w.recover(now.Add(maxTrial))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, now := NewWorker(100, Member{Weight: 1}, 10*time.Second, time.Second, 0), time.Unix(1_000_000, 0)
			for range 500 {
				if now = now.Add(w.TTL); w.Counted(99, 50, nil) {
					w.Listed(now, SetOf(7), 0)
				}
			}
			again(w, now)
			w.Counted(99, 50, nil)
			assert.True(t, w.Counted(99, 50, nil))
		})
	}
}
