package shard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

// A worker that is killed and comes back with its ID takes its place back: no other shard moves.
//
// rule: SH12
func TestARestartWithTheSameIDMovesNoShard(t *testing.T) {
	for _, planner := range []bool{false, true} {
		t.Run(fmt.Sprintf("of the planner %v", planner), func(t *testing.T) {
			inBubble(t, 64, func(w *fixture) {
				for i := range 4 {
					w.add(shard.Options{ID: fmt.Sprint(i)}, waits)
				}
				w.pass(10 * time.Minute)
				x := w.planner()
				if !planner {
					x = w.another(x)
				}
				had, at := x.owned(), slices.Index(w.all, x)
				others := slices.Delete(slices.Clone(w.all), at, at+1)
				moving, acquired := count(shard.Moving, others...), count(shard.Acquired, others...)
				x.kill()
				w.pass(3 * time.Second)
				y := w.add(shard.Options{ID: fmt.Sprint(at)}, waits)
				w.pass(fleetTTL + 5*time.Second)
				assert.Equal(w, had, y.owned())
				assert.Equal(w, moving, count(shard.Moving, others...))
				assert.Equal(w, acquired, count(shard.Acquired, others...))
				w.shared()
			})
		})
	}
}

// A worker that dies again and again gets nothing for longer and longer.
//
// rule: SH12
func TestAWorkerThatDiesAgainAndAgainTakesLittle(t *testing.T) {
	for _, c := range []struct {
		lives, away, ttl time.Duration
		idle             time.Duration // for which a worker's share has nobody, in all
		moves            int
	}{
		{5 * time.Second, 10 * time.Second, fleetTTL, 40 * time.Second, 8},
		{20 * time.Second, 20 * time.Second, fleetTTL, 60 * time.Second, 24},
		{5 * time.Second, 10 * time.Second, 5 * time.Second, 20 * time.Second, 16},
		{0, 0, fleetTTL, 0, 0},
	} {
		t.Run(fmt.Sprintf("lives %v, away %v, TTL %v", c.lives, c.away, c.ttl), func(t *testing.T) {
			inBubble(t, 64, func(w *fixture) {
				opts := func(i int) shard.Options {
					return shard.Options{ID: fmt.Sprint(i), Session: lease.Options{TTL: c.ttl}}
				}
				for i := range 7 {
					w.add(opts(i), waits)
				}
				w.pass(5 * time.Second)
				all, end := 0.0, time.Now().Add(minutes/2)
				for c.lives > 0 && time.Now().Before(end) {
					x := w.add(opts(7), waits)
					all += w.idle(c.lives, seq(64)...) * c.lives.Seconds()
					x.kill()
					all += w.idle(c.away, seq(64)...) * c.away.Seconds()
				}
				assert.LessOrEqual(w, all*8, c.idle.Seconds())
				assert.LessOrEqual(w, count(shard.Moving, w.all[:7]...), c.moves)
			})
		})
	}
}

// A shard whose work kills its process rests for longer and longer.
//
// rule: SH13
func TestAShardThatKillsRests(t *testing.T) {
	for _, restart := range []time.Duration{5 * time.Second, 30 * time.Second} {
		t.Run(fmt.Sprintf("restart after %v", restart), func(t *testing.T) {
			inBubble(t, 32, func(w *fixture) {
				killed := make(chan int, 100)
				start := func(i int) *worker {
					return w.add(shard.Options{ID: fmt.Sprint(i)}, func(ctx context.Context, h *shard.Held) error {
						if h.Shard() == 7 {
							select {
							case <-time.After(time.Second):
								killed <- i
							case <-ctx.Done():
							}
						}
						<-ctx.Done()
						return nil
					})
				}
				at := map[int]*worker{}
				for i := range 4 {
					at[i] = start(i)
				}
				deaths, idle := 0, 0.0
				back := map[int]time.Time{}
				for end := time.Now().Add(30 * time.Minute); time.Now().Before(end); {
					idle += w.idle(time.Second, seq(32)...)
					for len(killed) > 0 {
						if i := <-killed; back[i].IsZero() {
							deaths++
							at[i].kill()
							back[i] = time.Now().Add(restart)
						}
					}
					for i, when := range back {
						if !time.Now().Before(when) {
							delete(back, i)
							at[i] = start(i)
						}
					}
				}
				assert.LessOrEqual(w, deaths, 30, "116 to 120 if it never rested; the death of the planner costs some tries")
				assert.LessOrEqual(w, idle/1800, 0.12, "0.23 to 0.38 if it never rested; the one that kills is 0.03")
			})
		})
	}
}

// Of two workers that run with one ID the earlier gives all to the later, in order, and both say so.
//
// rule: SH12
func TestOfTwoWithOneIDTheLaterHasThePlace(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		for i := range 3 {
			w.add(shard.Options{ID: fmt.Sprint(i)}, waits)
		}
		w.pass(5 * time.Minute)
		x := w.all[1]
		had := x.owned()
		y := w.add(shard.Options{ID: "1"}, waits)
		w.pass(5 * time.Second)
		assert.Empty(w, x.owned())
		assert.Equal(w, had, y.owned())
		assert.Zero(w, count(shard.Lost, w.all...))
		assert.Zero(w, count(shard.Moving, w.all[0], w.all[2]))
		w.pass(3 * fleetTTL)
		assert.Equal(w, 1, count(shard.SameID, x))
		assert.Equal(w, 1, count(shard.SameID, y))
		assert.Zero(w, count(shard.SameID, w.all[0], w.all[2]))
		assert.NoError(w, y.c.Close()) // its session ends
		w.pass(3 * time.Second)
		assert.Equal(w, had, x.owned(), "the earlier is the only one again")
		y.gone = true
		w.shared()
	})
}
