package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A validity is until when a session is trusted: the window in force, which any goroutine may
// read at any time, and the results of renewals, which the session guards.
//
// Invariant: a window that has expired is never replaced (rule T4).
type validity struct {
	margin  time.Duration // as configured
	delay   time.Duration // the lock-delay
	force   atomic.Pointer[window]
	failure error // why the last renewal failed; nil after one that succeeded
}

// reserve is how much longer the lease is granted than the session trusts it for the lock-delay:
// in whole seconds, and longer than the delay by a fifth, as the TTL is than what a sixth of margin
// leaves of it. So a lease ends at least a delay after the deadline, by any of the clocks that the
// margin allows for (rule LD1).
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

// expired returns why the validity has ended at now; nil while it has not.
func (v *validity) expired(now clock.Instant) error {
	err := v.window().expired(now)
	if err != nil && v.failure != nil {
		err = fmt.Errorf("%w (last failure: %v)", err, v.failure)
	}
	return err
}

// extend moves the deadline to that of a confirmed renewal which was sent at sent and answered
// with granted, and reports whether the window in force had not expired at now. A window of a
// longer TTL is replaced even if the deadline moves back.
func (v *validity) extend(sent clock.Instant, granted time.Duration, now clock.Instant) bool {
	old := v.window()
	if old.expired(now) != nil {
		return false
	}
	w := newWindow(sent, granted, v.margin)
	if w.after(old) || w.granted < old.granted {
		v.force.Store(&w)
	}
	v.failure = nil
	return true
}

// failed records why a renewal failed; first: it is the first failure since a renewal
// succeeded.
func (v *validity) failed(err error) (first bool) {
	first = v.failure == nil
	v.failure = err
	return first
}
