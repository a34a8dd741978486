package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// recorder is an Observer that keeps the events of locks separate from all others.
type recorder struct {
	mu    sync.Mutex
	locks []observe.Event
	rest  []observe.Event
	more  func(ctx context.Context, ev observe.Event)
}

func (e *recorder) Observe(ctx context.Context, ev observe.Event) {
	e.mu.Lock()
	if strings.HasPrefix(fmt.Sprintf("%T", ev), "observe.Lock") {
		e.locks = append(e.locks, ev)
	} else {
		e.rest = append(e.rest, ev)
	}
	e.mu.Unlock()
	if e.more != nil {
		e.more(ctx, ev)
	}
}

// events returns the events of locks since the last call, once all are delivered.
func (e *recorder) events() (locks []observe.Event) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	locks, e.locks = e.locks, nil
	return locks
}

func of[E observe.Event](all []observe.Event) (some []E) {
	for _, ev := range all {
		if e, ok := ev.(E); ok {
			some = append(some, e)
		}
	}
	return some
}

// observedBy returns a client whose observer is e, and a session on it.
func (w *fixture) observedBy(e observe.Observer) (*pawl.Client, *pawl.Session) {
	w.Helper()
	c := w.client(pawl.Config{Observer: e})
	s, err := c.Session(w.Context())
	require.NoError(w, err)
	synctest.Wait() // the session's event is delivered
	return c, s
}

// as returns the Acquisition of h as it is in events. The ID is that of ev.
func as(h *lock.Held, s *pawl.Session, id int64) observe.Acquisition {
	return observe.Acquisition{ID: id, Name: h.Name(), Key: h.Key(), Token: h.Token(), Lease: s.ID(), Mode: observe.Exclusive, Slot: -1}
}

func TestTheLifeOfALockIsReportedInOrderBeforeItsCallsReturn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		h := w.acquire(s)
		require.Len(w, e.locks, 2)
		c := as(h, s, e.locks[0].(observe.LockEnqueued).ID)
		time.Sleep(time.Second)
		w.release(h)
		assert.Equal(w, []observe.Event{
			observe.LockEnqueued{Acquisition: c, Ahead: 0},
			observe.LockAcquired{Acquisition: c, How: observe.Free},
			observe.LockReleased{Acquisition: c, Held: time.Second},
		}, e.locks)
		assert.ErrorIs(w, h.Release(w.Context()), nil)
		assert.Len(w, e.events(), 3, "a release is reported once")
	})
}

// The session ends between the answer of the enqueue and what follows from it.
func TestAnEnqueueWhoseSessionHasEndedIsNotReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		var ends func() error
		c := w.Dial(pawl.Config{Observer: e}, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, answer, conn, opts...)
				if ends != nil {
					_ = ends()
				}
				return err
			}))
		s, err := c.Session(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		ends = func() error {
			ends = nil
			return hooks.SessionOf(s).Gone("revoked elsewhere")
		}
		_, err = lock.New(s, "name", lock.Options{}).Acquire(w.Context())
		require.ErrorIs(w, err, lease.ErrRevoked)
		locks := e.events()
		assert.Empty(w, of[observe.LockEnqueued](locks))
		assert.Len(w, of[observe.LockGaveUp](locks), 1)
	})
}

func TestAWaitIsReportedWithWhoWasAheadAndHowItEnded(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		e := &recorder{}
		_, s := w.observedBy(e)
		var all []*acquireCall
		for range 30 {
			all = append(all, w.waiting(s))
		}
		time.Sleep(3 * time.Second)
		hows := map[observe.How]int{}
		enqueued := of[observe.LockEnqueued](e.events())
		require.Len(w, enqueued, 30)
		for i, a := range all {
			w.release(h)
			h = a.won()
			acquired := of[observe.LockAcquired](e.events())
			require.Len(w, acquired, 1)
			assert.Equal(w, i+1, enqueued[i].Ahead)
			assert.Equal(w, enqueued[i].Acquisition, acquired[0].Acquisition)
			assert.Equal(w, as(h, s, enqueued[i].ID), acquired[0].Acquisition)
			assert.Equal(w, time.Duration(i+3)*time.Second, acquired[0].Wait)
			hows[acquired[0].How]++
			time.Sleep(time.Second)
		}
		w.release(h)
		assert.Len(w, hows, 2, "once somebody expects a grant, all behind it are handed the queue")
		assert.Positive(w, hows[observe.Confirmed], "nothing was known when h was acquired")
		assert.Positive(w, hows[observe.Granted])
	})
}

func TestAnAcquisitionThatFailsIsReportedAsGivenUp(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		e := &recorder{}
		_, s := w.observedBy(e)
		_, err := mutex(s).TryAcquire(w.Context())
		require.ErrorIs(w, err, lock.ErrBusy)
		gaveUp, ok := e.locks[0].(observe.LockGaveUp)
		require.True(w, ok)
		assert.ErrorIs(w, gaveUp.Err, lock.ErrBusy)
		assert.Zero(w, gaveUp.Token)
		assert.Empty(w, gaveUp.Key)
		assert.Len(w, e.events(), 1)

		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = mutex(s).Acquire(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		all := e.events()
		require.Len(w, all, 2)
		gaveUp = all[1].(observe.LockGaveUp)
		assert.Equal(w, all[0].(observe.LockEnqueued).Acquisition, gaveUp.Acquisition)
		assert.Equal(w, time.Second, gaveUp.Wait)
		assert.ErrorIs(w, gaveUp.Err, context.DeadlineExceeded)
		w.release(h)
	})
}

// Each way to lose a lock causes the event that an observer expects.
func TestALossIsReportedOnceWithItsCause(t *testing.T) {
	for what, c := range map[string]struct {
		cause  error
		strike func(w *fixture, s *pawl.Session, h *lock.Held)
	}{
		"deleted":     {lock.ErrKeyDeleted, func(w *fixture, _ *pawl.Session, h *lock.Held) { w.f.Delete(h.Key()) }},
		"overwritten": {lock.ErrKeyOverwritten, func(w *fixture, _ *pawl.Session, h *lock.Held) { w.f.Put(h.Key(), "x", 0) }},
		"revoked":     {lease.ErrRevoked, func(w *fixture, s *pawl.Session, _ *lock.Held) { w.f.Revoke(s.ID()) }},
		"expired":     {lease.ErrExpired, func(w *fixture, _ *pawl.Session, _ *lock.Held) { w.f.BlackHole() }},
		"closed":      {lease.ErrClosed, func(w *fixture, s *pawl.Session, _ *lock.Held) { _ = s.Close(w.Context()) }},
		"detached":    {lease.ErrClosed, func(_ *fixture, s *pawl.Session, _ *lock.Held) { s.Detach() }},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				e := &recorder{}
				_, s := w.observedBy(e)
				h := w.acquire(s)
				time.Sleep(time.Second)
				before := e.events()
				c.strike(w, s, h)
				time.Sleep(20 * time.Second)
				all := e.events()
				require.Len(w, all, 1)
				lost := all[0].(observe.LockLost)
				assert.Equal(w, before[0].(observe.LockEnqueued).Acquisition, lost.Acquisition)
				assert.ErrorIs(w, lost.Err, lock.ErrLost)
				w.oneCause(c.cause, lost.Err)
				assert.GreaterOrEqual(w, lost.Held, time.Second)
				assert.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
				assert.Empty(w, e.events(), "it was reported")
				w.f.Heal()
			})
		})
	}
}

// The log names the locks that were lost alone. A session's end is logged once.
func TestTheLogNamesALossThatIsALocksOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log inmemory.Log
		c := w.client(pawl.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s, err := c.Session(w.Context())
		require.NoError(w, err)
		deleted, overwritten := w.acquireName(s, "deleted"), w.acquireName(s, "overwritten")
		w.acquireName(s, "expired")
		w.f.Delete(deleted.Key())
		w.f.Put(overwritten.Key(), "x", s.ID())
		time.Sleep(time.Second)
		assert.ErrorIs(w, deleted.Err(), lock.ErrKeyDeleted)
		assert.ErrorIs(w, overwritten.Err(), lock.ErrKeyOverwritten)
		require.NoError(w, c.Close())
		assert.Equal(w, 2, strings.Count(log.String(), "msg=lost "), "%s", log.String())
		assert.Contains(w, log.String(), "msg=lost name=deleted")
		assert.Contains(w, log.String(), "msg=lost name=overwritten")
		assert.Equal(w, 1, strings.Count(log.String(), `msg="session ended"`))
	})
}

func TestALossThatOnlyTheReleaseFindsIsReportedAsALoss(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		h := w.acquire(s)
		w.f.Inject(quietWatches)
		w.f.Delete(h.Key())
		require.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
		all := e.events()
		require.Len(w, all, 3)
		assert.ErrorIs(w, all[2].(observe.LockLost).Err, lock.ErrKeyDeleted)
	})
}

func TestAReleaseThatIsPendingIsReportedAsSuchAndOnce(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		h := w.acquire(s)
		w.f.BlackHole()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		err := h.Release(ctx)
		require.ErrorIs(w, err, kv.ErrUnknown)
		all := e.events()
		require.Len(w, all, 3)
		released := all[2].(observe.LockReleased)
		assert.ErrorIs(w, released.Pending, kv.ErrUnknown)
		assert.Zero(w, released.Held, "it was not held while the release went on")
		w.f.Heal()
		require.NoError(w, h.Release(w.Context()))
		w.clear()
		assert.Empty(w, e.events())
	})
}

// A session may end in the instant in which a lock is won.
func TestALossIsNeverReportedBeforeTheAcquisition(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		client, s := w.observedBy(e)
		e.more = func(_ context.Context, ev observe.Event) {
			if _, ok := ev.(observe.LockAcquired); ok {
				w.f.Revoke(s.ID())
				<-s.Done()
				assert.Error(w, s.Err())
			}
		}
		h, err := mutex(s).Acquire(w.Context())
		require.NoError(w, err)
		w.lostBy(lease.ErrRevoked, h)
		all := e.events()
		require.Len(w, all, 3)
		assert.IsType(w, observe.LockAcquired{}, all[1])
		assert.IsType(w, observe.LockLost{}, all[2])
		require.NoError(w, client.Close())
	})
}

func TestWhatIsResumedIsReportedAsAnother(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		h := w.acquire(s)
		handle := s.Detach()
		other := w.client(pawl.Config{Observer: e})
		s, err := other.NewSession(w.Context(), lease.Options{Resume: handle})
		require.NoError(w, err)
		e.events()
		h, err = mutex(s).Resume(w.Context(), h.Key(), h.Token())
		require.NoError(w, err)
		all := e.events()
		require.Len(w, all, 1)
		acquired := all[0].(observe.LockAcquired)
		assert.Equal(w, observe.Resumed, acquired.How)
		assert.Equal(w, as(h, s, acquired.ID), acquired.Acquisition)
		w.release(h)
		assert.IsType(w, observe.LockReleased{}, e.events()[0])
	})
}

type word struct{}

func TestAnEventHasTheValuesOfItsCallsContextAndNotItsEnd(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		var ofLock, wrong atomic.Int64
		e.more = func(ctx context.Context, ev observe.Event) {
			switch ev.(type) {
			case observe.LockEnqueued, observe.LockAcquired, observe.LockLost:
				ofLock.Add(1)
				if ctx.Value(word{}) != "mine" || ctx.Err() != nil {
					wrong.Add(1)
				}
			}
		}
		ctx, cancel := context.WithCancel(context.WithValue(w.Context(), word{}, "mine"))
		h, err := mutex(s).Acquire(ctx)
		require.NoError(w, err)
		cancel()
		w.f.Delete(h.Key())
		time.Sleep(time.Second)
		assert.EqualValues(w, 3, ofLock.Load())
		assert.Zero(w, wrong.Load())
	})
}

// Every public method of what an event is about can be called within the event.
func TestAnObserverMayCallWhateverItLikes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		client, s := w.observedBy(e)
		var mu sync.Mutex
		held := map[string]*lock.Held{}
		var calls int
		e.more = func(ctx context.Context, ev observe.Event) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			began := time.Now()
			_, _, _, _ = s.ID(), s.TTL(), s.Deadline(), s.Err()
			_, _ = s.Context(), s.Done()
			_, _ = client.Session(ctx)
			mu.Lock()
			h := held["h"]
			mu.Unlock()
			if h != nil {
				_, _, _, _, _ = h.Err(), h.Deadline(), h.Token(), h.Context(), h.Done()
				_ = h.Confirm(ctx)
			}
			if _, first := ev.(observe.LockAcquired); first && calls == 0 {
				calls++
				other, err := lock.New(s, "other", lock.Options{}).Acquire(ctx)
				if assert.NoError(w, err) {
					assert.NoError(w, other.Release(ctx))
				}
				_, err = client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{kv.Put("k", nil)}})
				assert.NoError(w, err)
			}
			if _, lost := ev.(observe.LockLost); lost {
				assert.ErrorIs(w, h.Release(ctx), lock.ErrLost)
				assert.NoError(w, s.Close(ctx))
				_ = s.Detach()
			}
			assert.Less(w, time.Since(began), time.Second, "%T: something waited for the observer", ev)
		}
		h := w.acquire(s)
		mu.Lock()
		held["h"] = h
		mu.Unlock()
		time.Sleep(time.Minute) // renewals
		w.f.Delete(h.Key())
		time.Sleep(time.Minute)
		all := e.events()
		assert.NotEmpty(w, of[observe.LockLost](all))
		require.Error(w, s.Err(), "closed by the observer")
	})
}

// An observer is stuck for longer than the TTL. The calls that it delays are delayed, and
// everything else goes on.
func TestAStuckObserverDelaysNeitherRenewalsNorTheNewsOfALoss(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e, stuck := &recorder{}, make(chan struct{})
		client, s := w.observedBy(e)
		h := w.acquire(s)
		ctx, done := h.Context(), h.Done()
		other := w.acquireName(s, "other").Context()
		synctest.Wait()
		e.more = func(context.Context, observe.Event) { <-stuck }
		before := w.f.Counts()
		time.Sleep(5 * s.TTL())
		assert.NoError(w, h.Err(), "renewed meanwhile")
		assert.Greater(w, w.f.Counts().Since(before).Received["LeaseKeepAlive"], 15)
		w.f.BlackHole()
		time.Sleep(s.TTL() - s.TTL()/6)
		began := time.Now()
		synctest.Wait()
		assert.Error(w, ctx.Err())
		assert.Error(w, other.Err(), "reported though the other's observer is stuck")
		w.oneCause(lease.ErrExpired, h.Err())
		assert.True(w, isClosed(done))
		assert.Error(w, s.Err())
		assert.Zero(w, time.Since(began), "Err waits for no observer")
		w.f.Heal()
		close(stuck)
		require.NoError(w, client.Close())
		assert.Len(w, of[observe.LockLost](e.events()), 2)
		assert.Len(w, of[observe.SessionLost](e.rest), 1)
	})
}

// The clock is read where it counts, however long an observer took.
func TestALockWhoseObserverWasStuckBeyondTheTTLIsExpiredAtTheFirstCall(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		e.more = func(_ context.Context, ev observe.Event) {
			if _, ok := ev.(observe.LockAcquired); ok {
				w.f.BlackHole()
				time.Sleep(s.TTL())
				w.f.Heal()
			}
		}
		h, err := mutex(s).Acquire(w.Context())
		require.NoError(w, err)
		w.lostBy(lease.ErrExpired, h)
	})
}

func TestAnObserverThatPanicsBreaksNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log inmemory.Log
		c := w.client(pawl.Config{
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			Observer: observe.Func(func(context.Context, observe.Event) { panic("ouch") }),
		})
		s, err := c.Session(w.Context())
		require.NoError(w, err)
		h := w.acquire(s)
		time.Sleep(time.Minute)
		require.NoError(w, h.Err())
		w.release(h)
		lost := w.acquire(s)
		w.f.Delete(lost.Key())
		time.Sleep(time.Second)
		w.lostBy(lock.ErrKeyDeleted, lost)
		require.NoError(w, c.Close())
		assert.Contains(w, log.String(), "ouch")
		assert.Contains(w, log.String(), "event=observe.LockLost")
	})
}

func TestAfterClientCloseEverythingWasReportedAndOnlyLaterCallsReportMore(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		client, s := w.observedBy(e)
		for i := range 50 {
			w.acquireName(s, fmt.Sprint("n", i))
		}
		e.more = func(context.Context, observe.Event) { time.Sleep(time.Millisecond) }
		require.NoError(w, client.Close())
		before := len(e.rest) + len(e.locks)
		assert.Len(w, of[observe.LockLost](e.locks), 50)
		assert.Len(w, of[observe.SessionClosed](e.rest), 1)
		time.Sleep(time.Minute)
		assert.Equal(w, before, len(e.rest)+len(e.locks))
		_, err := mutex(s).Acquire(w.Context())
		require.ErrorIs(w, err, lease.ErrClosed)
		require.Equal(w, before+1, len(e.rest)+len(e.locks), "a call that begins later reports how it failed")
		assert.ErrorIs(w, e.locks[len(e.locks)-1].(observe.LockGaveUp).Err, lease.ErrClosed)
	})
}

func TestAFencedWriteIsReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		client, s := w.observedBy(e)
		h := w.acquire(s)
		w.release(h)
		for range 2 { // known here, and at the server
			_, err := client.KV().Txn(w.Context(), kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("k", nil)}})
			require.ErrorIs(w, err, kv.ErrFenced)
		}
		fenced := of[observe.WriteFenced](e.rest)
		require.Len(w, fenced, 2)
		assert.ErrorIs(w, fenced[0].Err, kv.ErrFenced)
	})
}

func TestAMemberThatFailsAndServesAgainIsReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		bad := w.f.Inject(etcdfake.Rule{Member: w.f.Member(0), Err: status.Error(codes.Unavailable, "down")})
		time.Sleep(30 * time.Second)
		bad.Lift()
		time.Sleep(30 * time.Second)
		require.NoError(w, s.Err())
		e.events()
		switched, serves := of[observe.MemberSwitched](e.rest), of[observe.MemberServes](e.rest)
		require.NotEmpty(w, switched)
		require.NotEmpty(w, serves)
		assert.Equal(w, w.f.Endpoints()[0], switched[0].From)
		assert.Equal(w, w.f.Endpoints()[0], serves[0].Member)
		assert.ErrorContains(w, switched[0].Err, "down")
	})
}
