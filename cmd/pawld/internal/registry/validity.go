package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// This file has rules V1 and V2, which determine how long a client may believe that it holds a
// lock.

// end is until when a client may believe that it holds r, by pawld's clock (rule V2).
func (s *session) end(r *row) clock.Instant {
	end := s.expiry
	if d := r.holding.Until(); d.Before(end) {
		end = d
	}
	if r.params.MaxHold > 0 {
		if limit := r.acquired.Add(r.params.MaxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// Validity is how much of a time on pawld's clock a client gets. It is five sixths, in whole
// milliseconds, so that clocks whose rates differ by up to a tenth do no harm.
func Validity(d time.Duration) time.Duration {
	return max(d-(d+5)/6, 0).Truncate(time.Millisecond)
}

// answered is what answers said of a row. It is zero if there was none, or if a predecessor gave it.
type answered struct {
	end      clock.Instant // the end from which the validity was computed
	believed clock.Instant // when the client's validity ends
}

// Answered records that all, which All or One returned for a request that arrived at arrival, was given
// to its client.
func (t *Registry) Answered(arrival clock.Instant, all ...Listed) {
	for _, l := range all {
		_, r := t.row(l.Ref)
		if believed := arrival.Add(l.Valid); r != nil && l.State == Held && r.answered.believed.Before(believed) {
			r.answered = answered{l.end, believed}
		}
	}
}

// Patience is how long after its arrival a request that renews may be parked, which is half of what is
// then left of the client's shortest validity, at most the time given. A validity that an answer would not
// renew, because max hold or pawld's session ends it, is not considered. It is called before All and
// One.
func (t *Registry) Patience(id string, arrival clock.Instant, most time.Duration) time.Duration {
	s := t.session(id)
	if s == nil {
		return most
	}
	for _, r := range s.live {
		if r.state == Held && r.sent && r.answered.end.Before(s.end(r)) {
			most = min(most, max(r.answered.believed.Sub(arrival)/2, 0))
		}
	}
	return most
}

// Parks records whether a session's client wanted a Renew to wait.
func (t *Registry) Parks(id string, parks bool) {
	if s := t.session(id); s != nil {
		s.parks = parks
	}
}

// Parking returns the sessions that hold something and whose clients make their renewals wait, because
// such a client comes again once it is answered.
func (t *Registry) Parking() (all []string) {
	for id := range t.sessions {
		if s := t.session(id); s != nil && s.parks && slices.ContainsFunc(slices.Collect(maps.Values(s.live)), func(r *row) bool { return r.state == Held }) {
			all = append(all, id)
		}
	}
	return all
}

// Shortest is the shortest validity of the held ones, or most if none is held.
func Shortest(all []Listed, most time.Duration) time.Duration {
	for _, l := range all {
		if l.State == Held {
			most = min(most, l.Valid)
		}
	}
	return most
}
