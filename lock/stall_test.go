package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// stallsIn are the ways to hold "name" with a Stall.
var stallsIn = map[string]func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error){
	"exclusive": func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error) {
		return lock.New(s, "name", o).Acquire(ctx)
	},
	"etcd's layout": func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error) {
		o.EtcdLayout = true
		return lock.New(s, "name", o).Acquire(ctx)
	},
	"shared": func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error) {
		return lock.New(s, "name", o).AcquireShared(ctx)
	},
	"semaphore": func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error) {
		return lock.NewSemaphore(s, "name", 3, o).Acquire(ctx)
	},
	"set": func(ctx context.Context, s *pawl.Session, o lock.Options) (*lock.Held, error) {
		return lock.NewMulti(s, o, lock.Exclusive("name"), lock.Shared("other")).Acquire(ctx)
	},
}

// A hold without progress ends to the nanosecond, wherever a loss is reported and whether or not anybody
// calls Err. Each Progress gives it the whole time again. Its keys are deleted; the session goes on.
//
// rule: H6
func TestAHoldWithoutProgressIsLost(t *testing.T) {
	for name, acquire := range stallsIn {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				h, err := acquire(w.Context(), s, lock.Options{Stall: 30 * time.Second})
				require.NoError(w, err)
				for range 10 {
					time.Sleep(30*time.Second - 1)
					require.NoError(w, h.Progress())
					assert.LessOrEqual(w, time.Until(h.Deadline()), 30*time.Second)
				}
				progressed := time.Now()
				ctx, done := h.Context(), h.Done()
				<-done
				assert.Equal(w, 30*time.Second, time.Since(progressed))
				synctest.Wait()
				w.oneCause(lock.ErrStalled, context.Cause(ctx))
				w.oneCause(lock.ErrStalled, h.Progress())
				w.oneCause(lock.ErrStalled, h.Err())
				assert.Zero(w, h.Deadline())
				time.Sleep(s.TTL() + time.Second) // of a set, the keys are kept for a TTL
				synctest.Wait()
				assert.Empty(w, w.f.Keys(h.Key()))
				assert.NoError(w, s.Err())
			})
		})
	}
}

// The time counts from the success of Acquire, not from its call.
//
// rule: H6
func TestAStallCountsFromTheEndOfTheWait(t *testing.T) {
	inBubble(t, func(w *fixture) {
		first := w.acquire(w.session())
		waiting := w.acquiring(w.Context(), lock.New(w.session(), "name", lock.Options{Stall: 30 * time.Second}))
		time.Sleep(time.Hour)
		w.release(first)
		h := waiting.won()
		won := time.Now()
		<-h.Done()
		assert.Equal(w, 30*time.Second, time.Since(won))
		w.lostBy(lock.ErrStalled, h)
		w.clear()
	})
}

// T3: Err and Progress need no timer to be right, and no timer makes them wrong before.
//
// rule: H6
func TestErrAndProgressCompareTheClockForAStall(t *testing.T) {
	for name, first := range map[string]func(*lock.Held) error{"Err": (*lock.Held).Err, "Progress": (*lock.Held).Progress} {
		t.Run(name, func(t *testing.T) {
			var slept atomic.Int64
			clock.SetSource(func(time.Time) time.Duration { return time.Duration(slept.Load()) })
			t.Cleanup(func() { clock.SetSource(nil) })
			inBubble(t, func(w *fixture) {
				h := w.acquireWith(w.longSession(), lock.Options{Stall: 30 * time.Second})
				time.Sleep(10 * time.Second)
				require.NoError(w, h.Progress())
				slept.Add(int64(20 * time.Second)) // the machine was suspended
				time.Sleep(10*time.Second - 1)
				w.held(h)
				slept.Add(1)
				w.oneCause(lock.ErrStalled, first(h))
				w.oneCause(lock.ErrStalled, h.Progress())
				w.lostBy(lock.ErrStalled, h)
			})
		})
	}
}

// longSession is a session that no suspend of these tests ends.
func (w *fixture) longSession() *pawl.Session {
	w.Helper()
	s, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{TTL: 12 * time.Hour})
	require.NoError(w, err)
	return s
}

// A process that is suspended within Progress has reported what it did before, not after. If Progress read
// the clock once more for what it records, that would revive an hour in which nothing was done.
//
// rule: H6
func TestASuspendWithinProgressRevivesNothing(t *testing.T) {
	var slept, readings, after atomic.Int64
	clock.SetSource(func(time.Time) time.Duration {
		if readings.Add(1) > after.Load() {
			slept.CompareAndSwap(0, int64(time.Hour))
		}
		return time.Duration(slept.Load())
	})
	t.Cleanup(func() { clock.SetSource(nil) })
	for n := range int64(4) { // readings of Progress before the suspend
		inBubble(t, func(w *fixture) {
			after.Store(1 << 60)
			slept.Store(0)
			h := w.acquireWith(w.longSession(), lock.Options{Stall: 30 * time.Second})
			time.Sleep(20 * time.Second)
			after.Store(readings.Load() + n)
			_ = h.Progress()
			after.Store(0)
			w.oneCause(lock.ErrStalled, h.Err())
			w.oneCause(lock.ErrStalled, h.Progress())
		})
	}
}

// A Progress that returned nil was in time: the hold lasts for a whole Stall from then, whoever else finds at
// the same instant that it has stalled.
//
// rule: H6
func TestAProgressThatReturnedNilCounts(t *testing.T) {
	var slept atomic.Int64
	clock.SetSource(func(time.Time) time.Duration { return time.Duration(slept.Load()) })
	t.Cleanup(func() { clock.SetSource(nil) })
	for range 200 {
		slept.Store(0)
		inBubbleOf(t, 1, func(w *fixture) {
			h := w.acquireWith(w.longSession(), lock.Options{Stall: 30 * time.Second})
			slept.Store(int64(30*time.Second - 1))
			start := make(chan struct{})
			var all sync.WaitGroup
			in := make([]bool, 4)
			for i := range in {
				all.Go(func() { <-start; in[i] = h.Progress() == nil })
			}
			all.Go(func() { <-start; slept.Add(1); _ = h.Err() })
			close(start)
			all.Wait()
			for _, counts := range in {
				if counts {
					assert.NoError(w, h.Err())
				}
			}
		})
	}
}

// The earlier bound is the only cause. A hold that ends earlier in another way keeps that cause, and what
// Progress says then changes nothing.
//
// rule: H6
func TestTheEarlierOfMaxHoldAndStallIsTheCause(t *testing.T) {
	for _, c := range []struct {
		most, stall, lasts time.Duration
		want               error
	}{
		{time.Minute, 10 * time.Second, 13 * time.Second, lock.ErrStalled},
		{12 * time.Second, 10 * time.Second, 12 * time.Second, lock.ErrMaxHold},
		{13 * time.Second, 10 * time.Second, 13 * time.Second, lock.ErrMaxHold},
		{5 * time.Second, 10 * time.Second, 5 * time.Second, lock.ErrMaxHold},
	} {
		t.Run(fmt.Sprint(c.most, c.stall), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				h := w.acquireWith(w.session(), lock.Options{MaxHold: c.most, Stall: c.stall})
				began := time.Now()
				time.Sleep(3 * time.Second)
				require.NoError(w, h.Progress())
				<-h.Done()
				assert.Equal(w, c.lasts, time.Since(began))
				w.oneCause(c.want, h.Progress())
				w.lostBy(c.want, h)
				w.clear()
			})
		})
	}
}

// rule: H6
func TestAHoldThatEndsBeforeItStallsEndsAsItDoes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := lock.Options{Stall: 20 * time.Second}
		s := w.session()
		released := w.acquireWith(s, o)
		w.release(released)
		assert.ErrorIs(w, released.Progress(), lock.ErrReleased)
		lost := w.acquireWith(s, o)
		w.f.Delete(lost.Key())
		<-lost.Done()
		w.oneCause(lock.ErrKeyDeleted, lost.Progress())
		time.Sleep(time.Minute)
		w.released(released)
		w.oneCause(lock.ErrKeyDeleted, lost.Err())

		h := w.acquireWith(s, o)
		require.NoError(w, s.Close(w.Context()))
		w.oneCause(lease.ErrClosed, h.Progress())
		time.Sleep(time.Minute)
		w.oneCause(lease.ErrClosed, h.Err())
	})
}

// Without a Stall, and of no hold, Progress is Err.
func TestProgressWithoutAStallIsErr(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		before := w.f.Counts()
		assert.NoError(w, h.Progress())
		assert.Zero(w, testing.AllocsPerRun(100, func() { _ = h.Progress() }))
		assert.Empty(w, w.f.Counts().Since(before).Received["Txn"])
		time.Sleep(time.Hour)
		w.held(h)
		w.release(h)
		assert.Equal(w, h.Err(), h.Progress())
		var none *lock.Held
		assert.Equal(w, none.Err(), none.Progress())
	})
}

// A Progress sends nothing, allocates nothing and wakes nobody, however often it comes.
func TestProgressMakesNoRequest(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquireWith(w.session(), lock.Options{Stall: time.Hour})
		synctest.Wait()
		before := w.f.Counts()
		assert.Zero(w, testing.AllocsPerRun(1000, func() { _ = h.Progress() }))
		synctest.Wait()
		assert.Empty(w, w.f.Counts().Since(before).Received["Txn"])
		w.release(h)
	})
}

// Do's function learns of it, the log names the function, Do waits for it, and others hold the lock meanwhile.
//
// rule: H6
func TestDoWaitsForAFunctionThatHangsAndNamesIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, log := w.logged()
		o := lock.Options{Stall: 10 * time.Second}
		began := time.Now()
		err := lock.New(s, "name", o).Do(w.Context(), func(ctx context.Context, _ *lock.Held) error {
			<-ctx.Done()
			assert.Equal(w, 10*time.Second, time.Since(began))
			assert.Equal(w, 1, log.Warnings(`msg=lost name=name`))
			assert.Equal(w, 1, log.Warnings("runs=[github.com/pawl-locks/pawl/lock_test.TestDoWaitsForAFunctionThatHangsAndNamesIt."))
			next, err := w.client(pawl.Config{Namespace: "ns/"}).Session(w.Context())
			require.NoError(w, err)
			h, err := mutex(next).Acquire(w.Context())
			require.NoError(w, err)
			assert.Less(w, time.Since(began), 11*time.Second, "acquired while the other hangs")
			require.NoError(w, h.Release(w.Context()))
			time.Sleep(time.Hour)
			return nil
		})
		assert.Equal(w, time.Hour, time.Since(began).Truncate(time.Hour))
		w.oneCause(lock.ErrStalled, err)
		assert.ErrorIs(w, err, lock.ErrLost)
	})
}

// What keeps a key after a loss keeps that of a stalled hold: AtLeast, a promise, and the lock-delay.
//
// rule: H6
func TestWhatKeepsTheKeyOfAStalledHold(t *testing.T) {
	const stall = 5 * time.Second
	for _, c := range []struct {
		name    string
		session lease.Options
		opts    lock.Options
		held    func(h *lock.Held)
		kept    time.Duration // from the acquisition
	}{
		{"nothing", lease.Options{}, lock.Options{}, nil, stall},
		{"AtLeast", lease.Options{}, lock.Options{AtLeast: 20 * time.Second}, nil, 20 * time.Second},
		{"a lock-delay", lease.Options{LockDelay: 10 * time.Second}, lock.Options{}, nil, stall + 10*time.Second},
		{"a promise", lease.Options{}, lock.Options{}, func(h *lock.Held) {
			_ = hooks.KeeperOfHeld(h).Promise(clock.Now().Add(8 * time.Second))
		}, 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s, err := w.client(pawl.Config{}).NewSession(w.Context(), c.session)
				require.NoError(w, err)
				c.opts.Stall = stall
				h := w.acquireWith(s, c.opts)
				began := time.Now()
				if c.held != nil {
					c.held(h)
				}
				next := w.waiting(w.session())
				<-h.Done()
				assert.Equal(w, stall, time.Since(began))
				w.release(next.won())
				took := time.Since(began)
				assert.GreaterOrEqual(w, took, c.kept)
				assert.Less(w, took, c.kept+time.Second)
			})
		})
	}
}

// A resumed hold has its own Stall, which counts from the resumption. A Handle does not carry one.
//
// rule: H6
func TestAResumedHoldHasAStallOfItsOwn(t *testing.T) {
	for _, next := range []time.Duration{0, 10 * time.Second} {
		t.Run(next.String(), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				h := w.acquireWith(s, lock.Options{Stall: 6 * time.Second})
				time.Sleep(5 * time.Second)
				heir, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: s.Detach()})
				require.NoError(w, err)
				r, err := lock.New(heir, "name", lock.Options{Stall: next}).Resume(w.Context(), h.Key(), h.Token())
				require.NoError(w, err)
				began := time.Now()
				time.Sleep(8 * time.Second)
				w.held(r)
				if next == 0 {
					return
				}
				<-r.Done()
				assert.Equal(w, next, time.Since(began))
				w.lostBy(lock.ErrStalled, r)
				w.clear()
			})
		})
	}
}

func TestAStallIsZeroOrAtLeastASecond(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		for _, bad := range []time.Duration{-1, 1, time.Second - 1} {
			_, err := lock.New(s, "name", lock.Options{Stall: bad}).Acquire(w.Context())
			assert.EqualError(w, err, fmt.Sprintf(`lock: acquire "name": Options.Stall is %v, want 0 or at least 1s`, bad))
		}
		for _, good := range []time.Duration{0, time.Second, 1<<63 - 1} {
			w.release(w.acquireWith(s, lock.Options{Stall: good}))
		}
	})
}

// Ten thousand holds with a Stall cost the session one wake-up for each Stall of each, and no timer of
// their own.
func TestManyStallsShareOneTimer(t *testing.T) {
	inBubbleOf(t, 1, func(w *fixture) {
		s := w.session()
		var all []*lock.Held
		for i := range 50 {
			h, err := lock.New(s, fmt.Sprint(i), lock.Options{Stall: 10 * time.Second}).Acquire(w.Context())
			require.NoError(w, err)
			all = append(all, h)
		}
		for range 20 {
			time.Sleep(time.Second)
			for _, h := range all[:49] {
				require.NoError(w, h.Progress())
			}
		}
		<-all[49].Done()
		w.oneCause(lock.ErrStalled, all[49].Err())
		for _, h := range all[:49] {
			require.NoError(w, h.Err())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, h := range all {
			w.oneCause(lock.ErrStalled, h.Err())
		}
	})
}

// Whoever reads the queue learns that a hold has a Stall, and after how long it is lost.
func TestAQueueShowsWhoHasAStall(t *testing.T) {
	for name, acquire := range stallsIn {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				for _, stall := range []time.Duration{0, 90 * time.Second} {
					for _, owner := range []string{"", "ann"} {
						h, err := acquire(w.Context(), w.session(), lock.Options{Stall: stall, Owner: owner})
						require.NoError(w, err)
						q, err := lock.New(w.spare, "name", lock.Options{EtcdLayout: name == "etcd's layout"}).Queue(w.Context())
						if name == "semaphore" {
							q, err = lock.NewSemaphore(w.spare, "name", 3, lock.Options{}).Queue(w.Context())
						}
						require.NoError(w, err)
						require.Len(w, q, 1)
						assert.Equal(w, stall, q[0].Stall)
						assert.False(w, q[0].Since.IsZero())
						if owner != "" {
							assert.Equal(w, owner, q[0].Owner)
						}
						require.NoError(w, h.Release(w.Context()))
					}
				}
			})
		})
	}
}

// A key that says that its hold has a Stall receives handoffs, as every key does.
func TestAHoldWithAStallIsHandedOn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := lock.Options{Stall: time.Minute}
		first := w.acquireWith(w.session(), o)
		second := w.acquiring(w.Context(), lock.New(w.session(), "name", o))
		third := w.acquiring(w.Context(), lock.New(w.session(), "name", lock.Options{}))
		fourth := w.acquiring(w.Context(), lock.New(w.session(), "name", o))
		for _, next := range []*acquireCall{second, third, fourth} {
			w.release(first)
			first = next.won()
			own, handoff, _ := strings.Cut(string(w.f.Get(first.Key()).Value), "\n")
			assert.Equal(w, next != second, strings.HasPrefix(handoff, "granted "), "its predecessor knew of it")
			assert.Equal(w, next != third, strings.HasSuffix(own, " stall=1m0s"), own)
		}
		w.release(first)
	})
}
