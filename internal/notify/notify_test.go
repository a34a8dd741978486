package notify

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// heard is an Observer that keeps what it is told, and does more.
type heard struct {
	mu   sync.Mutex
	all  []int64
	more func(n int64)
}

func (h *heard) Observe(_ context.Context, ev observe.Event) {
	n := ev.(observe.SessionHedged).Lease
	h.mu.Lock()
	h.all = append(h.all, n)
	h.mu.Unlock()
	if h.more != nil {
		h.more(n)
	}
}

func event(n int64) observe.Event { return observe.SessionHedged{Lease: n} }

func upTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func newTeller(o observe.Observer) (t *Teller, own *owner, log *bytes.Buffer) {
	own, log = &owner{}, &bytes.Buffer{}
	return New(o, slog.New(slog.NewTextHandler(log, nil)), own.spawn), own, log
}

func TestWithoutAnObserverNothingIsToldAndNothingAllocated(t *testing.T) {
	f := New(nil, nil, nil).Feed()
	require.Nil(t, f)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		f.Now(context.Background(), nil)
		f.Later(context.Background(), nil)
	}))
}

func TestNowIsToldBeforeItReturns(t *testing.T) {
	h := &heard{}
	teller, _, _ := newTeller(h)
	teller.Feed().Now(t.Context(), event(1))
	assert.Equal(t, upTo(1), h.all)
}

// A feed's events come in the order in which they were put in, one at a time,
// however many goroutines put them in.
func TestEventsOfAFeedComeInOrderAndOneAtATime(t *testing.T) {
	var inside sync.Mutex
	h := &heard{more: func(int64) {
		if assert.True(t, inside.TryLock(), "two at a time") {
			runtime.Gosched()
			inside.Unlock()
		}
	}}
	teller, own, _ := newTeller(h)
	f := teller.Feed()
	var putting sync.Mutex
	n := int64(0)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				putting.Lock()
				n++
				if put := f.put(told{t.Context(), event(n)}); put && i%2 == 0 {
					defer f.deliver()
				} else if put {
					teller.hand(f)
				}
				putting.Unlock()
			}
		})
	}
	all.Wait()
	own.Wait()
	assert.Equal(t, upTo(200), h.all)
}

// An observer may cause events of the feed that it is told of.
func TestAnEventWithinAnEventComesAfterIt(t *testing.T) {
	var f *Feed
	h := &heard{}
	h.more = func(n int64) {
		if n < 3 {
			f.Now(t.Context(), event(n+1))
			assert.Len(t, h.all, int(n), "told within another")
		}
	}
	teller, _, _ := newTeller(h)
	f = teller.Feed()
	f.Now(t.Context(), event(1))
	assert.Equal(t, upTo(3), h.all)
}

func TestLaterDoesNotWaitForAnObserverThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &heard{more: func(int64) { <-stuck }}
		teller, own, _ := newTeller(h)
		a, b := teller.Feed(), teller.Feed()
		a.Later(t.Context(), event(1))
		synctest.Wait()
		a.Later(t.Context(), event(2))
		a.Now(t.Context(), event(3)) // told by the one that is stuck
		b.Later(t.Context(), event(4))
		close(stuck)
		own.Wait()
		assert.Equal(t, []int64{1, 2, 3, 4}, h.all)
	})
}

func TestOfWhatIsTooMuchTheLatestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &heard{more: func(int64) { <-stuck }}
		teller, own, log := newTeller(h)
		f := teller.Feed()
		f.Later(t.Context(), event(1))
		synctest.Wait()
		for n := range int64(10 * most) {
			f.Later(t.Context(), event(n+2))
		}
		close(stuck)
		own.Wait()
		assert.Equal(t, append(upTo(most), 10*most+1), h.all)
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("does not keep up")))
	})
}

func TestAPanicIsLoggedAndTheNextEventIsTold(t *testing.T) {
	h := &heard{more: func(n int64) {
		if n == 1 {
			panic("out of order")
		}
	}}
	teller, own, log := newTeller(h)
	f := teller.Feed()
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
func TestAnObserverThatEndsItsGoroutineEndsNoFeed(t *testing.T) {
	h := &heard{more: func(n int64) {
		if n%2 == 1 {
			runtime.Goexit()
		}
	}}
	teller, own, _ := newTeller(h)
	f := teller.Feed()
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

func TestOnceNoGoroutineMayBeginTheCallerTells(t *testing.T) {
	h := &heard{}
	teller, own, _ := newTeller(h)
	own.closed = true
	teller.Feed().Later(t.Context(), event(1))
	assert.Equal(t, upTo(1), h.all)
}

// handler is a log's, and calls the library back.
type handler struct {
	slog.Handler
	back func()
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(context.Context, slog.Record) error {
	h.back()
	return nil
}

func TestAHandlerOfLogsMayCallBackWhenEventsAreLeftOut(t *testing.T) {
	var f *Feed
	logged := 0
	log := slog.New(handler{slog.DiscardHandler, func() { logged++; f.Later(context.Background(), event(-1)) }})
	own, release := &owner{}, make(chan struct{})
	h := &heard{more: func(int64) { <-release }}
	f = New(h, log, own.spawn).Feed()
	for n := range int64(most + 2) {
		f.Later(context.Background(), event(n))
	}
	close(release)
	own.Wait()
	assert.Equal(t, 1, logged)
}
