package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lease"
)

// A window is one stretch of validity: from the sending of a grant or renewal
// to the moment from which it is not trusted. It is a value; all of its
// methods are arithmetic.
type window struct {
	sent    clock.Instant // c of rule T2: before the request was written
	granted time.Duration // the TTL in the server's answer
	margin  time.Duration // as asked for; a sixth of granted at the least
}

// kept is the margin in force: enlarged by the option, never made smaller.
func (w window) kept() time.Duration {
	// Rounded up, so that the division never takes from the margin.
	return max(w.margin, (w.granted+5)/6)
}

// deadline is the first instant at which the window has expired.
func (w window) deadline() clock.Instant {
	return w.sent.Add(w.granted - w.kept())
}

// remaining is how long the window lasts at now; it is not positive once it has expired.
func (w window) remaining(now clock.Instant) time.Duration {
	return w.deadline().Sub(now)
}

// whole is how long the window lasts in all.
func (w window) whole() time.Duration { return w.granted - w.kept() }

// half is half of how long the window lasts in all.
func (w window) half() time.Duration { return w.whole() / 2 }

// Validity is how long a renewal makes the session valid, counted from its sending.
func (s *Session) Validity() time.Duration { return s.validity.window().whole() }

// expired says why the window has ended at now; nil while it lasts.
func (w window) expired(now clock.Instant) error {
	if left := w.remaining(now); left <= 0 {
		return because(lease.ErrExpired, "unconfirmed for %v of a TTL of %v", now.Sub(w.sent).Round(time.Millisecond), w.granted)
	}
	if ahead := now.WallAhead(w.sent); ahead > w.kept() {
		return because(lease.ErrExpired, "the wall clock ran ahead by %v: this machine was frozen, or its time was set", ahead.Round(time.Millisecond))
	}
	return nil
}

// after reports whether w ends later than v.
func (w window) after(v window) bool {
	return v.deadline().Before(w.deadline())
}
