package notify

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/observe"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// owner owns the workers.
type owner struct {
	sync.WaitGroup
	closed bool
}

func (o *owner) spawn(f func()) bool {
	if !o.closed {
		o.Go(f)
	}
	return !o.closed
}

// recorder is an Observer that records its events, and then calls more.
type recorder struct {
	mu   sync.Mutex
	all  []int64
	more func(n int64)
}

func (r *recorder) Observe(_ context.Context, ev observe.Event) {
	n := ev.(observe.SessionHedged).Lease
	r.mu.Lock()
	r.all = append(r.all, n)
	r.mu.Unlock()
	if r.more != nil {
		r.more(n)
	}
}

func event(n int64) observe.Event { return observe.SessionHedged{Lease: n} }

func upTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func newNotifier(o observe.Observer) (t *Notifier, own *owner, log *bytes.Buffer) {
	own, log = &owner{}, &bytes.Buffer{}
	return New(o, slog.New(slog.NewTextHandler(log, nil)), own.spawn), own, log
}

func TestWithoutAnObserverNothingIsDeliveredAndNothingAllocated(t *testing.T) {
	f := New(nil, nil, nil).NewSource()
	require.Nil(t, f)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		f.Now(context.Background(), nil)
		f.Later(context.Background(), nil)
	}))
}

func TestNowDeliversBeforeItReturns(t *testing.T) {
	h := &recorder{}
	notifier, _, _ := newNotifier(h)
	notifier.NewSource().Now(t.Context(), event(1))
	assert.Equal(t, upTo(1), h.all)
}

// A source delivers its events in the order in which they were added, one at a time,
// however many goroutines add them.
func TestEventsOfASourceComeInOrderAndOneAtATime(t *testing.T) {
	var inside sync.Mutex
	h := &recorder{more: func(int64) {
		if assert.True(t, inside.TryLock(), "two at a time") {
			runtime.Gosched()
			inside.Unlock()
		}
	}}
	notifier, own, _ := newNotifier(h)
	f := notifier.NewSource()
	var putting sync.Mutex
	n := int64(0)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				putting.Lock()
				n++
				if put := f.put(notification{ctx: t.Context(), ev: event(n)}); put && i%2 == 0 {
					defer f.deliver()
				} else if put {
					notifier.enqueue(f)
				}
				putting.Unlock()
			}
		})
	}
	all.Wait()
	own.Wait()
	assert.Equal(t, upTo(200), h.all)
}

// A renewal that was confirmed just before its session ended may be added after the end.
func TestNothingIsDeliveredAfterTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waiting := range []int64{1, maxPending + 2} { // the second is more than may wait
			stuck := make(chan struct{})
			h := &recorder{more: func(int64) { <-stuck }}
			notifier, own, _ := newNotifier(h)
			f := notifier.NewSource()
			f.Later(t.Context(), event(1))
			synctest.Wait()
			for n := range waiting {
				f.Later(t.Context(), event(n+2))
			}
			f.Last(t.Context(), event(1000))
			f.Later(t.Context(), event(1001))
			close(stuck)
			own.Wait()
			f.Now(t.Context(), event(1002))
			assert.EqualValues(t, 1000, h.all[len(h.all)-1])
		}
	})
}

// An observer may cause further events of the source whose event it receives.
func TestAnEventWithinAnEventComesAfterIt(t *testing.T) {
	var f *Source
	h := &recorder{}
	h.more = func(n int64) {
		if n < 3 {
			f.Now(t.Context(), event(n+1))
			assert.Len(t, h.all, int(n), "delivered within another")
		}
	}
	notifier, _, _ := newNotifier(h)
	f = notifier.NewSource()
	f.Now(t.Context(), event(1))
	assert.Equal(t, upTo(3), h.all)
}

func TestLaterDoesNotWaitForAnObserverThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &recorder{more: func(int64) { <-stuck }}
		notifier, own, _ := newNotifier(h)
		a, b := notifier.NewSource(), notifier.NewSource()
		a.Later(t.Context(), event(1))
		synctest.Wait()
		a.Later(t.Context(), event(2))
		a.Now(t.Context(), event(3)) // delivered by the goroutine that is stuck
		b.Later(t.Context(), event(4))
		close(stuck)
		own.Wait()
		assert.Equal(t, []int64{1, 2, 3, 4}, h.all)
	})
}

func TestWhenTooManyEventsWaitTheLatestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &recorder{more: func(int64) { <-stuck }}
		notifier, own, log := newNotifier(h)
		f := notifier.NewSource()
		f.Later(t.Context(), event(1))
		synctest.Wait()
		for n := range int64(10 * maxPending) {
			f.Later(t.Context(), event(n+2))
		}
		close(stuck)
		own.Wait()
		assert.Equal(t, append(upTo(maxPending), 10*maxPending+1), h.all)
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("does not keep up")))
	})
}

func TestAPanicIsLoggedAndTheNextEventIsDelivered(t *testing.T) {
	h := &recorder{more: func(n int64) {
		if n == 1 {
			panic("out of order")
		}
	}}
	notifier, own, log := newNotifier(h)
	f := notifier.NewSource()
	f.Now(t.Context(), event(1))
	f.Now(t.Context(), event(2))
	f.Later(t.Context(), event(1))
	f.Later(t.Context(), event(2))
	own.Wait()
	assert.Equal(t, []int64{1, 2, 1, 2}, h.all)
	assert.Contains(t, log.String(), "observer panicked")
	assert.Contains(t, log.String(), "event=observe.SessionHedged panic=\"out of order\"")
}

// testing.T.FailNow ends the goroutine that calls it.
func TestAnObserverThatEndsItsGoroutineEndsNoSource(t *testing.T) {
	h := &recorder{more: func(n int64) {
		if n%2 == 1 {
			runtime.Goexit()
		}
	}}
	notifier, own, _ := newNotifier(h)
	f := notifier.NewSource()
	gone := make(chan struct{})
	go func() { // ends within Now
		defer close(gone)
		f.Now(t.Context(), event(1))
	}()
	<-gone
	own.Wait()
	for n := range int64(4) {
		f.Later(t.Context(), event(n+2))
	}
	own.Wait()
	f.Now(t.Context(), event(6))
	assert.Equal(t, upTo(6), h.all)
}

func TestOnceNoGoroutineMayStartTheCallerDelivers(t *testing.T) {
	h := &recorder{}
	notifier, own, _ := newNotifier(h)
	own.closed = true
	notifier.NewSource().Later(t.Context(), event(1))
	assert.Equal(t, upTo(1), h.all)
}

// handler is a log handler that calls the library back.
type handler struct {
	slog.Handler
	back func()
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(context.Context, slog.Record) error {
	h.back()
	return nil
}

func TestAHandlerOfLogsMayCallBackWhenEventsAreDropped(t *testing.T) {
	var f *Source
	logged := 0
	log := slog.New(handler{slog.DiscardHandler, func() { logged++; f.Later(context.Background(), event(-1)) }})
	own, release := &owner{}, make(chan struct{})
	h := &recorder{more: func(int64) { <-release }}
	f = New(h, log, own.spawn).NewSource()
	for n := range int64(maxPending + 2) {
		f.Later(context.Background(), event(n))
	}
	close(release)
	own.Wait()
	assert.Equal(t, 1, logged)
}
