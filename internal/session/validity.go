package session

import (
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A validity is until when a session is to be trusted: the window in force, which
// anybody may read at any time, and what its renewals came to, which the session
// guards.
//
// Invariant: a window that has expired is never replaced (rule T4).
type validity struct {
	margin  time.Duration // as asked for
	force   atomic.Pointer[window]
	failure error // of the last try to renew; nil after one that succeeded
}

// window is the one in force.
func (v *validity) window() window { return *v.force.Load() }

// begin sets the first window: of a grant, or of a takeover's first renewal.
func (v *validity) begin(sent clock.Instant, granted time.Duration) window {
	w := window{sent: sent, granted: granted, margin: v.margin}
	v.force.Store(&w)
	return w
}

// expired says why the validity has ended at now; nil while it lasts.
func (v *validity) expired(now clock.Instant) error {
	err := v.window().expired(now)
	if c, ok := err.(*cause); ok {
		c.last = v.failure
	}
	return err
}

// extend moves the deadline to that of a confirmed renewal which was sent at sent
// and answered with granted, and reports whether the window in force had not ended
// at now. One of a longer TTL gives way even where the deadline moves back.
func (v *validity) extend(sent clock.Instant, granted time.Duration, now clock.Instant) bool {
	old := v.window()
	if old.expired(now) != nil {
		return false
	}
	w := window{sent: sent, granted: granted, margin: v.margin}
	if w.after(old) || w.granted < old.granted {
		v.force.Store(&w)
	}
	v.failure = nil
	return true
}

// failed notes why a try to renew failed; first: since the last that
// succeeded.
func (v *validity) failed(err error) (first bool) {
	first = v.failure == nil
	v.failure = err
	return first
}
