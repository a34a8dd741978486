package shard_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/shard"
)

// loads are the loads of 12 shards, which a test may change.
type loads struct {
	mu  sync.Mutex
	all [12]float64
}

func newLoads(all ...float64) *loads {
	l := &loads{}
	for i := range l.all {
		l.all[i] = all[i%len(all)]
	}
	return l
}

func (l *loads) of(i int) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[i]
}

func (l *loads) set(i int, x float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[i] = x
}

// on are the sums of the live workers, sorted.
func (l *loads) on(w *fixture) (sums []float64) {
	for _, x := range w.all {
		if x.gone {
			continue
		}
		sum := 0.0
		for _, i := range x.owned() {
			sum += l.of(i)
		}
		sums = append(sums, sum)
	}
	slices.Sort(sums)
	return sums
}

// rule: SH14
func TestLoadsAreEvenedOut(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		l := newLoads(1)
		for range 3 {
			w.add(shard.Options{Load: l.of}, waits)
		}
		w.pass(10 * fleetTTL)
		w.shared()
		before := w.total()
		w.pass(10 * fleetTTL)
		assert.Equal(w, before, w.total(), "equal loads are even by number")

		hot := w.all[0].owned()[0]
		l.set(hot, 6)
		w.pass(2*fleetTTL + 10*time.Second)
		sums := l.on(w)
		assert.Equal(w, []float64{5, 6, 6}, sums, "the hot one has a worker for itself")
		assert.Contains(w, w.all[0].owned(), hot, "and stays where it is")
		assert.Equal(w, before+3, w.total())

		w.add(shard.Options{Load: l.of}, waits)
		w.pass(5 * time.Second)
		sums = l.on(w)
		assert.LessOrEqual(w, sums[2], 4.0, "%v", sums)
		w.all[3].kill()
		w.pass(fleetTTL + 5*time.Second)
		assert.LessOrEqual(w, l.on(w)[2], 6.0, "%v", l.on(w))
	})
}

// rule: SH14
func TestWithoutLoadNothingIsToldOrAsked(t *testing.T) {
	for name, load := range map[string]func(int) float64{"no Load": nil, "a steady Load": newLoads(1).of} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 12, func(w *fixture) {
				for range 3 {
					w.add(shard.Options{Load: load}, waits)
				}
				w.pass(10 * fleetTTL)
				from := w.f.Revision()
				ops := w.counter()
				n, txns := ops.during("five TTLs at rest", func() { w.pass(5 * fleetTTL) })
				n.only(w, counts)
				assert.Equal(w, n[counts], txns)
				assert.Empty(w, w.writes(from))
				for _, key := range w.f.Keys(w.keys.Prefix + "m/") {
					value := string(w.f.Get(key).Value)
					if load == nil {
						assert.Equal(w, `{"weight":1}`, value)
					} else {
						assert.Contains(w, value, `"loads":"`)
						assert.LessOrEqual(w, len(value), 60)
					}
				}
			})
		})
	}
}

// What Load does wrong costs its shard its load, or its worker that of all, and nothing else. It is said
// once, and once more when it ends.
// rule: SH14
func TestALoadThatIsNone(t *testing.T) {
	blocked := make(chan struct{})
	for _, c := range []struct {
		name  string
		wrong func() float64
		all   bool // of the worker's shards nothing is told
		says  string
	}{
		{"not a number", math.NaN, false, "Options.Load returns NaN for shard"},
		{"infinite", func() float64 { return math.Inf(1) }, false, "Options.Load returns +Inf for shard"},
		{"negative", func() float64 { return -1 }, false, "Options.Load returns -1 for shard"},
		{"panics", func() float64 { panic("no such counter") }, false, "no such counter"},
		{"ends its goroutine", func() float64 { runtime.Goexit(); return 0 }, false, "runtime.Goexit"},
		{"blocks", func() float64 { <-blocked; return 1 }, true, "has not returned for a TTL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 12, func(w *fixture) {
				blocked = make(chan struct{})
				l := newLoads(1)
				var mu sync.Mutex
				wrong := false
				var counted observe.ShardsCounted
				load := func(i int) float64 {
					mu.Lock()
					is := wrong && i%4 == 0
					mu.Unlock()
					if is {
						return c.wrong()
					}
					return l.of(i)
				}
				log := &inmemory.Log{}
				client := w.Dial(pawl.Config{Logger: log.Logger(), Observer: observe.Func(func(_ context.Context, ev observe.Event) {
					if ev, ok := ev.(observe.ShardsCounted); ok && !ev.Left {
						mu.Lock()
						counted = ev
						mu.Unlock()
					}
				})})
				ctx, stop := context.WithCancel(context.Background())
				w.Cleanup(stop)
				done := make(chan error, 1)
				opts := shard.Options{Load: load, Value: []byte("me"), Session: lease.Options{TTL: fleetTTL}}
				go func() { done <- shard.Run(ctx, client, "jobs", 12, opts, waits) }() // ends with ctx
				w.add(shard.Options{Load: l.of}, waits)
				w.pass(10 * fleetTTL)
				me := func() shard.Member {
					t := w.table(w.all[0])
					return t.Members[slices.IndexFunc(t.Members, func(m shard.Member) bool { return string(m.Value) == "me" })]
				}
				held := me().Held
				assert.Equal(w, held, me().Measured)
				said := log.String()
				moved := w.total()

				mu.Lock()
				wrong = true
				mu.Unlock()
				w.pass(fleetTTL / 2)
				assert.Equal(w, held, me().Measured, "it is kept for a TTL")
				w.pass(3 * fleetTTL)
				if c.all {
					assert.Zero(w, me().Measured)
				} else {
					assert.Less(w, me().Measured, held)
					assert.True(w, me().Measured > 0 || c.says == "runtime.Goexit", "the others are")
				}
				unmeasured := held - me().Measured
				mu.Lock()
				assert.Equal(w, unmeasured, counted.Unmeasured)
				assert.InDelta(w, float64(held), counted.Load, 4)
				mu.Unlock()
				assert.Equal(w, moved, w.total(), "it counts as the mean, so nothing moves")
				says := strings.TrimPrefix(log.String(), said)
				assert.Contains(w, says, c.says)
				assert.Equal(w, 1, strings.Count(says, "shards: to measure loads"), says)

				mu.Lock()
				wrong = false
				close(blocked)
				mu.Unlock()
				w.pass(3 * fleetTTL)
				assert.Equal(w, held, me().Measured, "and it is well again")
				assert.Equal(w, 2, strings.Count(strings.TrimPrefix(log.String(), said), "shards: to measure loads"))
				stop()
				assert.ErrorIs(w, <-done, context.Canceled)
			})
		})
	}
}

// A Load that does not return delays neither moves nor the end of Run for long.
// rule: SH14
func TestALoadThatBlocksHoldsUpNothing(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		blocked := make(chan struct{})
		defer close(blocked)
		a := w.add(shard.Options{Load: func(int) float64 { <-blocked; return 1 }}, waits)
		w.pass(5 * time.Second)
		w.add(shard.Options{Load: newLoads(1).of}, waits)
		w.pass(4 * time.Second)
		w.shared()
		began := time.Now()
		assert.ErrorIs(w, a.leave(), context.Canceled)
		assert.Less(w, time.Since(began), 5*time.Second)
	})
}

// Loads are shown, and a plan that only they are a reason for says so.
// rule: SH14
func TestLoadsAreShown(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		l := newLoads(1, 2)
		var mu sync.Mutex
		uneven := map[bool]int{}
		cfg := pawl.Config{Observer: observe.Func(func(_ context.Context, ev observe.Event) {
			if ev, ok := ev.(observe.ShardsPlanned); ok {
				mu.Lock()
				defer mu.Unlock()
				uneven[ev.Uneven]++
				assert.NotEqual(w, ev.Uneven, ev.Waited > 0)
			}
		})}
		ctx, stop := context.WithCancel(context.Background())
		w.Cleanup(stop)
		done := make(chan error, 1)
		c := w.Dial(cfg)
		go func() {
			done <- shard.Run(ctx, c, "jobs", 12, shard.Options{Load: l.of, Session: lease.Options{TTL: fleetTTL}}, waits)
		}() // ends with ctx
		w.pass(time.Second)
		w.add(shard.Options{Load: l.of}, waits)
		w.pass(time.Second)
		w.add(shard.Options{}, waits)
		w.pass(10 * fleetTTL)
		t := w.table(w.all[0])
		for i, s := range t.Shards {
			at := slices.IndexFunc(t.Members, func(m shard.Member) bool { return m.Lease == s.Lease })
			if t.Members[at].Measured == 0 {
				assert.Zero(w, s.Load)
				continue
			}
			assert.InDelta(w, l.of(i), s.Load, 0.1)
			t.Members[at].Load -= s.Load
			t.Members[at].Measured--
			t.Members[at].Held--
		}
		for _, m := range t.Members[:2] {
			assert.InDelta(w, 0, m.Load, 0.001)
			assert.Equal(w, m.Held, m.Measured)
		}
		assert.Zero(w, t.Members[2].Load)
		mu.Lock()
		assert.Zero(w, uneven[true])
		mu.Unlock()
		l.set(w.all[0].owned()[0], 30)
		w.pass(3 * fleetTTL)
		mu.Lock()
		assert.Equal(w, 1, uneven[true])
		mu.Unlock()
		stop()
		<-done
	})
}

// The loads of a worker whose session is lost are told on its next one, when they are known there.
// rule: SH14
func TestAWorkerThatComesBackTellsItsLoadsAgain(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, x *worker){
		"cut off": func(w *fixture, x *worker) {
			x.net.set(true)
			w.pass(2 * fleetTTL)
			x.net.set(false)
		},
		"revoked": func(w *fixture, x *worker) { assert.True(w, w.f.Revoke(x.lease())) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 12, func(w *fixture) {
				l := newLoads(1)
				for range 2 {
					w.add(shard.Options{Load: l.of}, waits)
				}
				w.pass(10 * fleetTTL)
				lose(w, w.another(w.planner()))
				w.pass(2 * time.Second)
				told := map[bool]int{}
				for _, key := range w.f.Keys(w.keys.Prefix + "m/") {
					m, err := shards.DecodeMember(12, w.f.Get(key).Value)
					require.NoError(w, err)
					told[len(m.Loads) > 0]++
				}
				assert.Equal(w, map[bool]int{true: 1, false: 1}, told, "the one that came back knows none yet")
				w.pass(10 * fleetTTL)
				w.shared()
				for _, m := range w.table(w.all[0]).Members {
					assert.Equal(w, m.Held, m.Measured)
				}
			})
		})
	}
}
