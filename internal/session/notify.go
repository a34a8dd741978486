package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

// This file reports to the client's log and observer. A goroutine of the client delivers the events, so
// that neither the renewals nor Err wait for an observer. Without an observer the source is nil, and drops
// them.

// notifyGranted reports the beginning of the session, before anything can end it.
func (s *Session) notifyGranted() {
	s.host.Cluster.Logger().Info("session begins", "lease", hex(s.id), "ttl", s.TTL(), "owner", s.owner)
	s.events = s.host.Cluster.Notifier().NewSource()
	s.events.Later(context.Background(), observe.SessionGranted{
		Lease: s.id, Owner: s.owner, TTL: s.TTL(), Resumed: s.book.inherited > 0, Left: s.validFor,
	})
}

// validFor is how long the session remains valid unless it is renewed.
func (s *Session) validFor() time.Duration {
	if s.Err() != nil {
		return 0
	}
	return max(s.validity.window().remaining(clock.Now()), 0)
}

// notifyRenewed reports a confirmed renewal.
func (s *Session) notifyRenewed(c confirmation) {
	s.events.Later(context.Background(), observe.SessionRenewed{
		Lease: s.id, Member: c.Member.Endpoint(), RoundTrip: c.Took, Was: c.Result.left, Left: s.validFor(),
	})
}

// notifyHedged reports that a renewal on m joins one on slow that has not been answered for so long.
func (s *Session) notifyHedged(slow, m *cluster.Member, after time.Duration) {
	s.events.Later(context.Background(), observe.SessionHedged{
		Lease: s.id, Slow: slow.Endpoint(), Member: m.Endpoint(), After: after,
	})
}

// warn reports jeopardy once less than half of the validity is left, and at most once between two
// renewals. It returns when to call it next, or the zero Time if that is after the next renewal.
func (r *renewer) warn(now time.Time) time.Time {
	if r.warned {
		return time.Time{}
	}
	w := r.s.validity.window()
	left := w.remaining(clock.Now())
	if before := left - w.whole()/2; before >= 0 {
		return now.Add(before + 1)
	}
	r.s.notifyJeopardy(left, !r.jeopardy)
	r.warned, r.jeopardy = true, true
	return time.Time{}
}

// safe records that a round has ended. The log learns when jeopardy begins, and of the first renewal
// that came before it, and not of each renewal of a session for which etcd is too far away.
func (r *renewer) safe() {
	if r.jeopardy && !r.warned {
		r.jeopardy = false
		r.s.host.Cluster.Logger().Info("session is renewed in time again", "lease", hex(r.s.id))
	}
	r.warned = false
}

// notifyJeopardy reports jeopardy, to the log if it begins.
func (s *Session) notifyJeopardy(left time.Duration, begins bool) {
	s.mu.Lock()
	err := s.validity.failure
	s.mu.Unlock()
	why := "no answer yet"
	if err != nil {
		why = err.Error()
	}
	if begins {
		s.host.Cluster.Logger().Warn("session in jeopardy", "lease", hex(s.id), "left", left.Round(time.Millisecond), "error", why)
	}
	s.events.Later(context.Background(), observe.SessionInJeopardy{Lease: s.id, Left: left, Err: err})
}

// notifyEnded reports why the session has ended.
func (s *Session) notifyEnded(err error) {
	level, ev := slog.LevelWarn, observe.Event(observe.SessionLost{Lease: s.id, Err: err})
	if errors.Is(err, lease.ErrClosed) {
		level, ev = slog.LevelInfo, observe.SessionClosed{Lease: s.id, Err: err}
	}
	s.host.Cluster.Logger().Log(context.Background(), level, "session ended", "lease", hex(s.id), "cause", err.Error())
	s.events.Last(context.Background(), ev) // a session that no caller received has no source
}

// hex is a lease's ID as it appears in keys.
func hex(id int64) string { return fmt.Sprintf("%x", id) }
