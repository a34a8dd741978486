package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// wantings are the ways in which somebody comes to wait behind a holder.
var wantings = []struct {
	name string
	as   func(w *fixture)                     // what the holder holds
	wait func(w *fixture, s *session.Session) // queues behind it
}{
	{"a lock", func(*fixture) {}, func(w *fixture, s *session.Session) { w.enqueues(s, "name", false) }},
	{"a lock, shared", func(*fixture) {}, func(w *fixture, s *session.Session) { w.enqueues(s, "name", true) }},
	{"a shared lock", func(w *fixture) { w.shared = true }, func(w *fixture, s *session.Session) { w.enqueues(s, "name", false) }},
	{"the first of a set", func(w *fixture) { w.set = []string{"b", "c"} }, func(w *fixture, s *session.Session) { w.enqueues(s, "name", false) }},
	{"the shared one of a set", func(w *fixture) { w.set = []string{"b", "c"} }, func(w *fixture, s *session.Session) { w.enqueues(s, "b", false) }},
	{"the last of a set", func(w *fixture) { w.set = []string{"b", "c"} }, func(w *fixture, s *session.Session) { w.enqueues(s, "c", true) }},
	{"etcd's layout", func(w *fixture) { w.etcd = true }, func(w *fixture, s *session.Session) { w.enqueues(s, "name", false) }},
	{"a nested name", func(w *fixture) { w.etcd = true }, func(w *fixture, s *session.Session) { w.enqueues(s, "name/nested", false) }},
	{"somebody else's key", func(*fixture) {}, func(w *fixture, s *session.Session) { w.f.Put("name/other", "", s.ID()) }},
}

// enqueues starts an Acquire of name, which is not released.
func (w *fixture) enqueues(s *session.Session, name string, shared bool) {
	w.Helper()
	q, err := New("", name, w.etcd)
	require.NoError(w, err)
	q.Shared = shared
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	go func() { _, _ = Acquire(ctx, s, Request{}, q) }()
	synctest.Wait()
}

// eachWanting runs f for each of wantings, with a holder, what it holds, and a function by which another queues
// behind it.
func eachWanting(t *testing.T, f func(w *fixture, s *session.Session, a *Acquisition, wait func())) {
	for _, by := range wantings {
		t.Run(by.name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				by.as(w)
				holder, other := w.session(), w.session()
				f(w, holder, w.acquire(holder), func() { by.wait(w, other) })
			})
		})
	}
}

// isWantedNow asserts that wanted is closed in this instant.
func (w *fixture) isWantedNow(a *Acquisition) {
	w.Helper()
	synctest.Wait()
	assert.True(w, isClosed(a.Wanted()), "nothing was heard of who waits")
}

// within asserts that c is closed within d.
func (w *fixture) within(c <-chan struct{}, d time.Duration) {
	w.Helper()
	select {
	case <-c:
	case <-time.After(d):
		require.Fail(w, "not closed", "within %v", d)
	}
}

func (w *fixture) isNotWanted(a *Acquisition) {
	w.Helper()
	synctest.Wait()
	assert.False(w, isClosed(a.Wanted()), "nobody waits")
}

// rule: H5
func TestWantedIsClosedOnceSomebodyWaits(t *testing.T) {
	eachWanting(t, func(w *fixture, s *session.Session, a *Acquisition, wait func()) {
		wanted := a.Wanted()
		w.isNotWanted(a)
		for range 3 {
			time.Sleep(s.TTL())
			w.isNotWanted(a)
		}
		wait()
		w.isWantedNow(a)
		assert.Equal(w, wanted, a.Wanted(), "one channel")
		w.held(a)
		w.release(a)
	})
}

// The watches begin at the present, so the read after their creation has to find who waited before.
// rule: H5
func TestWantedIsClosedAtOnceIfSomebodyWaitsAlready(t *testing.T) {
	eachWanting(t, func(w *fixture, _ *session.Session, a *Acquisition, wait func()) {
		wait()
		w.within(a.Wanted(), 20*time.Millisecond)
		w.release(a)
	})
}

// Nor is a waiter missed between the call and the creation of the last watch, whenever that is.
func TestWantedFindsWhoCameBeforeTheWatches(t *testing.T) {
	eachWanting(t, func(w *fixture, _ *session.Session, a *Acquisition, wait func()) {
		time.Sleep(time.Second)
		late := w.f.Inject(etcdfake.Rule{Method: "Watch", Delay: 100 * time.Millisecond})
		wanted := a.Wanted()
		synctest.Wait()
		late.Lift()
		wait()
		assert.False(w, isClosed(wanted))
		w.within(wanted, 200*time.Millisecond)
		w.release(a)
	})
}

// Rules A4, H2: silence proves nothing, so the renewals read too.
// rule: H5
func TestWantedThatTheWatchMissedIsFoundByARenewal(t *testing.T) {
	eachWanting(t, func(w *fixture, s *session.Session, a *Acquisition, wait func()) {
		wanted := a.Wanted()
		time.Sleep(time.Second)
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true, Hang: true})
		w.f.Cut()
		w.f.Heal()
		time.Sleep(time.Second)
		wait()
		w.within(wanted, s.TTL()/4+time.Second)
		w.release(a)
	})
}

// After a compaction ended the watches, a renewal has them created again.
func TestWantedOutlivesACompaction(t *testing.T) {
	eachWanting(t, func(w *fixture, s *session.Session, a *Acquisition, wait func()) {
		wanted := a.Wanted()
		time.Sleep(time.Second)
		watches := w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true, Hang: true})
		w.f.Cut()
		w.f.Heal()
		for range 3 {
			w.f.Put("other", "", 0)
		}
		w.f.Compact(w.f.Revision())
		time.Sleep(100 * time.Millisecond)
		watches.Lift()
		time.Sleep(s.TTL())
		assert.False(w, isClosed(wanted))
		wait()
		w.isWantedNow(a)
		w.release(a)
	})
}

func TestWhatIsNotBehindAHolderDoesNotWantIt(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.shared = true
		s := w.session()
		a := w.acquire(s)
		a.Wanted()
		b := w.acquire(w.session())
		w.isNotWanted(a)
		_, err := w.take(w.Context(), s, Request{Try: true})
		require.NoError(w, err, "its own session may")
		w.isNotWanted(a)
		w.isNotWanted(b)
		w.enqueues(w.session(), "name2", false)
		w.enqueues(w.session(), "other", false)
		w.release(b)
		time.Sleep(s.TTL())
		w.isNotWanted(a)
	})
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		a := w.acquire(s)
		a.Wanted()
		_, err := w.take(w.Context(), w.session(), Request{Try: true})
		require.ErrorIs(w, err, ErrBusy)
		time.Sleep(s.TTL())
		w.isNotWanted(a)
		waiter := w.session()
		ctx, cancel := context.WithCancel(w.Context())
		call := w.acquiring(ctx, waiter, Request{})
		w.isWantedNow(a)
		cancel()
		require.Error(w, call.failed())
		w.isWantedNow(a) // it was
	})
}

func TestWhoIsBehindAWaiterWantsOnlyTheNextHolder(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		a := w.acquire(w.session())
		second := w.waiting(w.session())
		w.waiting(w.session())
		a.Wanted()
		w.isWantedNow(a)
		w.release(a)
		b := second.won()
		w.within(b.Wanted(), 20*time.Millisecond)
	})
}

func TestWantedIsNilForWhatIsNotHeldAndForASlot(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		assert.Nil(w, None.Wanted())
		a := w.acquire(w.session())
		b := w.acquireExclusiveOf(w.session(), "b")
		wanted := b.Wanted()
		w.release(a)
		assert.Nil(w, a.Wanted())
		require.NoError(w, b.Release(w.Context(), errGivenBack))
		assert.Equal(w, wanted, b.Wanted())
		synctest.Wait()
		assert.False(w, isClosed(wanted), "the end does not close it")
		w.limit = 1
		c := w.permit(1).won()
		w.permit(1)
		assert.Nil(w, c.Wanted())
	})
}

func (w *fixture) acquireExclusiveOf(s *session.Session, name string) *Acquisition {
	w.Helper()
	q, err := New("", name, false)
	require.NoError(w, err)
	c, err := Acquire(w.Context(), s, Request{}, q)
	require.NoError(w, err)
	return c
}

// watchCount returns how many watches the holder's client has.
func watchCount(a *Acquisition) int { return a.s.Host().Watches.Stats().Watches }

// What happens to the holder's own key is noticed at each stage, and a watch that is no longer
// needed is cancelled.
// rule: H5
func TestALossIsNoticedWhileWantedIsAskedForAndAfterwards(t *testing.T) {
	for stage, until := range map[string]func(w *fixture, a *Acquisition, wait func()){
		"asked in this instant": func(w *fixture, a *Acquisition, _ func()) { a.Wanted() },
		"asked, the watches are late": func(w *fixture, a *Acquisition, _ func()) {
			late := w.f.Inject(etcdfake.Rule{Method: "Watch", Delay: 20 * time.Millisecond})
			a.Wanted()
			synctest.Wait()
			late.Lift()
		},
		"asked before it was armed": func(w *fixture, a *Acquisition, _ func()) { a.Wanted(); time.Sleep(time.Second) },
		"nobody waits": func(w *fixture, a *Acquisition, _ func()) {
			time.Sleep(time.Second)
			a.Wanted()
			time.Sleep(time.Second)
		},
		"somebody waits":           func(w *fixture, a *Acquisition, wait func()) { a.Wanted(); synctest.Wait(); wait(); synctest.Wait() },
		"somebody waits, for long": func(w *fixture, a *Acquisition, wait func()) { a.Wanted(); wait(); time.Sleep(time.Minute) },
		"somebody waited":          func(w *fixture, a *Acquisition, wait func()) { wait(); a.Wanted(); synctest.Wait() },
	} {
		t.Run(stage, func(t *testing.T) {
			eachWanting(t, func(w *fixture, s *session.Session, a *Acquisition, wait func()) {
				time.Sleep(time.Second)
				before := watchCount(a)
				until(w, a, wait)
				if isClosed(a.Wanted()) {
					assert.Equal(w, before, watchCount(a))
				} else {
					assert.Equal(w, before+a.spans(), watchCount(a))
				}
				keys := a.AllKeys()
				began := time.Now()
				w.f.Delete(keys[len(keys)-1])
				<-a.Done()
				assert.Less(w, time.Since(began), 150*time.Millisecond, "no renewal found it")
				assert.ErrorIs(w, a.Err(), ErrKeyDeleted)
				synctest.Wait()
				assert.Equal(w, before-len(keys), watchCount(a))
			})
		})
	}
}
