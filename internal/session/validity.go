package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lease"
)

// A validity decides until when a session is trusted. It has the window in force, which any goroutine
// may read at any time, and the failure of the last renewal, which the session guards.
//
// Invariant: a window that has expired is never replaced (rule T4).
type validity struct {
	margin  time.Duration // as configured
	delay   time.Duration // the lock-delay
	force   atomic.Pointer[window]
	failure error // why the last renewal failed; nil after one that succeeded
}

// reserve is what the lock-delay adds to the TTL of the lease: the delay and a fifth, rounded up to
// whole seconds. The fifth corresponds to a margin of a sixth, because a TTL is longer by a fifth than
// what such a margin leaves of it. So a lease ends at least a delay after the deadline, by any of the
// clocks that the margin allows for (rule LD1).
func (v *validity) reserve() time.Duration {
	return (v.delay*6/5 + time.Second - 1).Truncate(time.Second)
}

// window is the window in force.
func (v *validity) window() window { return *v.force.Load() }

// begin sets the first window: of a grant, or of a takeover's first renewal.
func (v *validity) begin(sent clock.Instant, granted time.Duration) window {
	w := newWindow(sent, granted, v.margin)
	v.force.Store(&w)
	return w
}

// expired returns why the validity has ended at now, or nil if it has not.
func (v *validity) expired(now clock.Instant) error {
	err := v.window().expired(now)
	if err != nil && v.failure != nil {
		err = fmt.Errorf("%w (last failure: %v)", err, v.failure)
	}
	return err
}

// extend moves the deadline to that of a confirmed renewal which was sent at sent and answered with
// granted. It returns false, and changes nothing, if the window in force had expired at now. It
// replaces a window with a longer TTL even if the deadline moves back.
func (v *validity) extend(sent clock.Instant, granted time.Duration, now clock.Instant) bool {
	old := v.window()
	if old.expired(now) != nil {
		return false
	}
	w := newWindow(sent, granted, v.margin)
	if old.deadline().Before(w.deadline()) || w.granted < old.granted {
		v.force.Store(&w)
	}
	v.failure = nil
	return true
}

// failed records why a renewal failed, and reports whether it is the first failure since a renewal
// succeeded.
func (v *validity) failed(err error) (first bool) {
	first = v.failure == nil
	v.failure = err
	return first
}

// A window is one period of validity, from when a grant or renewal was sent to when the session is no
// longer trusted. It is a value, and its methods are pure arithmetic.
type window struct {
	sent    clock.Instant // c of rule T2, read before the request was written
	granted time.Duration // the TTL in the server's answer, less what the lock-delay adds
	margin  time.Duration // at least a sixth of granted
}

// newWindow makes a window with the configured margin, or a sixth of granted if that is more.
func newWindow(sent clock.Instant, granted, margin time.Duration) window {
	// Rounded up, so that the integer division never makes the margin smaller.
	return window{sent, granted, max(margin, (granted+5)/6)}
}

// deadline is the first instant at which the window has expired.
func (w window) deadline() clock.Instant {
	return w.sent.Add(w.granted - w.margin)
}

// remaining is how long the window still lasts at now. It is zero or negative once the window has
// expired.
func (w window) remaining(now clock.Instant) time.Duration {
	return w.deadline().Sub(now)
}

// whole is the window's whole length.
func (w window) whole() time.Duration { return w.granted - w.margin }

// due is how long after the window's renewal was sent the next begins, and after how long at the latest
// another member joins a renewal. So three begin before the deadline (rule N3). It is a quarter of the
// TTL if the margin is a sixth.
func (w window) due() time.Duration { return (w.whole()*3 + 9) / 10 }

// bound is how long a renewal may take unless it is answered, so that three fit. It is a third of the TTL if the margin is a
// sixth.
func (w window) bound() time.Duration { return w.whole() * 2 / 5 }

// pause is how long a round waits after its n-th failure, counted from 1. The wait doubles up to a
// limit, and shrinks again as the deadline approaches, until which left remains.
func (w window) pause(n int, left time.Duration) time.Duration {
	v := w.whole()
	wait := min(v*3/100<<min(n-2, 8), v*3/20)
	return max(min(wait, left/4), min(v*3/100, 100*time.Millisecond))
}

// Validity is how long a renewal keeps the session valid, counted from when the renewal was
// sent.
func (s *Session) Validity() time.Duration { return s.validity.window().whole() }

// expired returns why the window has expired at now, or nil if it has not.
func (w window) expired(now clock.Instant) error {
	if w.deadline().Sub(now) <= 0 {
		return fmt.Errorf("%w: unconfirmed for %v of a TTL of %v", lease.ErrExpired, now.Sub(w.sent).Round(time.Millisecond), w.granted)
	}
	if ahead := now.WallAhead(w.sent); ahead > w.margin {
		return fmt.Errorf("%w: the wall clock ran ahead by %v: this machine was frozen, or its time was set", lease.ErrExpired, ahead.Round(time.Millisecond))
	}
	return nil
}
