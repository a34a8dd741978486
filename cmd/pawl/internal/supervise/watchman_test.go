package supervise

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// stubHolding is held until deadline, or until err is set.
type stubHolding struct {
	deadline time.Time
	err      error
}

var errStub = errors.New("lost")

func (h *stubHolding) Err() error {
	if h.err == nil && !time.Now().Before(h.deadline) {
		h.err = errStub
	}
	return h.err
}
func (h *stubHolding) Done() <-chan struct{} { return nil }
func (h *stubHolding) Keep() (done func())   { return func() {} }
func (h *stubHolding) Remains() (r Remains)  { return r }
func (h *stubHolding) Proof() *os.File       { return nil }
func (h *stubHolding) Deadline() time.Time {
	if h.Err() != nil {
		return time.Time{}
	}
	return h.deadline
}

// stubTarget notes each call and its time.
type stubTarget struct{ term, killed time.Time }

func (s *stubTarget) signal(sig unix.Signal) {
	if sig == unix.SIGTERM {
		s.term = time.Now()
	}
}

func (s *stubTarget) kill() {
	if s.killed.IsZero() {
		s.killed = time.Now()
	}
}

// watch lets w look until it has killed, or for an hour.
func watch(w *watchman, s *stubTarget, each func()) {
	for start := time.Now(); s.killed.IsZero() && time.Since(start) < time.Hour; {
		time.Sleep(w.check(s))
		each()
	}
}

func TestCommandWithoutRenewalsGetsTermAndIsKilledBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(12500 * time.Millisecond)}
		s := &stubTarget{}
		w := newWatchman(h, 2500*time.Millisecond)
		watch(w, s, func() {})
		assert.Equal(t, 2500*time.Millisecond, h.deadline.Sub(s.term))
		assert.Equal(t, 625*time.Millisecond, h.deadline.Sub(s.killed))
		assert.ErrorIs(t, w.cause, ErrRunningOut)
	})
}

func TestCommandWithoutGraceIsKilledBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(2500 * time.Millisecond)}
		s := &stubTarget{}
		watch(newWatchman(h, 0), s, func() {})
		assert.Equal(t, leastReserve, h.deadline.Sub(s.killed))
	})
}

func TestCommandRunsOnWhileTheLockIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(12 * time.Second)}
		s := &stubTarget{}
		watch(newWatchman(h, 2*time.Second), s, func() {
			if left := time.Until(h.deadline); left < 5*time.Second {
				h.deadline = time.Now().Add(12 * time.Second)
			}
		})
		assert.Zero(t, s.term)
		assert.Zero(t, s.killed)
	})
}

func TestCommandGetsItsGraceAfterASuddenLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(10 * time.Second)}
		s := &stubTarget{}
		w := newWatchman(h, time.Second)
		w.check(s)
		h.err = errStub
		lost := time.Now()
		watch(w, s, func() {})
		assert.Equal(t, lost, s.term)
		assert.Equal(t, lost.Add(time.Second), s.killed)
	})
}

func TestGraceAfterASuddenLossEndsBeforeTheLastDeadlineKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(2 * time.Second)}
		s := &stubTarget{}
		w := newWatchman(h, time.Second)
		w.check(s)
		time.Sleep(990 * time.Millisecond)
		h.err = errStub
		watch(w, s, func() {})
		assert.Equal(t, h.deadline.Add(-250*time.Millisecond), s.killed)
	})
}

func TestCommandIsKilledAtOnceWhenTheDeadlineHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stubHolding{deadline: time.Now().Add(2 * time.Second)}
		s := &stubTarget{}
		w := newWatchman(h, time.Second)
		w.check(s)
		time.Sleep(time.Minute) // nobody looked: this process was stopped
		now := time.Now()
		watch(w, s, func() {})
		assert.Equal(t, now, s.killed)
	})
}

func TestTheClockIsComparedAtLeastEveryGlance(t *testing.T) {
	h := &stubHolding{deadline: time.Now().Add(time.Hour)}
	w := newWatchman(h, 0)
	assert.LessOrEqual(t, w.check(&stubTarget{}), glance)
}
