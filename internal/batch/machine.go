package batch

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// machine decides when each write is sent, and with which others. It is pure: each call is an
// event with its time, and returns what to do. A Sender guards it.
type machine struct {
	inflight   inflight
	gather     gather
	quarantine quarantine
	limits     limits
	noSpace    bool          // no put has succeeded since the cluster reported no space
	hold       time.Duration // for tests; if not 0, every write gathers, and is sent after this long
}

func newMachine() machine {
	return machine{limits: limits{mostParts, mostBytes, mostOps}, quarantine: quarantine{}}
}

// effects are what the Sender has to do after an event. The zero value is nothing.
type effects struct {
	send   []*part // one request; a single part is sent alone, as it is
	ticket int     // of that request
	avoid  *cluster.Member
}

// offer accepts a write that is to be sent. If p is nil, the caller sends it at once, with the ticket.
// Otherwise it waits as p. together says that the cluster accepts several writes in one request (rule
// G11), and alone that this write must be sent alone.
func (m *machine) offer(w *Write, together, alone bool, now time.Time) (p *part, ticket int, fx effects) {
	if alone || !together || w.Kind == Alone || m.limits.parts == 0 || m.hold == 0 && m.inflight.open() || m.quarantine.has(w, now) {
		return nil, m.inflight.take(now), effects{}
	}
	size, writes := sizeOf(w.Txn), w.puts()
	if len(m.gather.parts) > 0 && m.overfull(w, size) {
		fx = m.flush(now)
	}
	if !m.gather.admits(w, size, writes, m.noSpace, m.limits) {
		return nil, m.inflight.take(now), fx
	}
	p = newPart(*w, size, writes)
	m.gather.add(p, m.inflight.busy, now)
	if len(m.gather.parts) == m.limits.parts {
		fx = m.flush(now)
	}
	return p, 0, fx
}

// overfull reports whether w fits into an empty request but not into this one.
func (m *machine) overfull(w *Write, size int) bool {
	var empty gather
	return empty.admits(w, size, false, false, m.limits) &&
		(m.gather.bytes+size > m.limits.bytes || len(m.gather.parts)+1+max(m.gather.ops, w.ops()) > m.limits.ops)
}

// flush sends what waits.
func (m *machine) flush(now time.Time) effects {
	parts := m.gather.take()
	return effects{send: parts, ticket: m.inflight.take(now), avoid: m.inflight.silent()}
}

// next sends what waits if another request may be in flight. It also does so once as many requests have
// ended as were in flight when the first of what waits came, at most mostInflight, because writes that
// are sent alone might keep the limit reached.
func (m *machine) next(now time.Time) effects {
	if len(m.gather.parts) == 0 || m.hold > 0 || !m.inflight.open() && m.gather.passed < m.gather.ahead {
		return effects{}
	}
	return m.flush(now)
}

// paused is the event that a try has ended without an answer, and that another is to follow.
func (m *machine) paused(ticket int, now time.Time) effects {
	if m.inflight.paused(ticket) {
		m.gather.passed++
	}
	return m.next(now)
}

// finished is the event that a request has ended, and that its writes have their answers.
func (m *machine) finished(ticket int, now time.Time) effects {
	if m.inflight.give(ticket) {
		m.gather.passed++
	}
	return m.next(now)
}

// tick is the event that time has passed.
func (m *machine) tick(now time.Time) effects {
	m.inflight.expire(now)
	if m.hold > 0 && len(m.gather.parts) > 0 && now.Sub(m.gather.since) >= m.hold {
		return m.flush(now)
	}
	return m.next(now)
}

// wake is when to call tick, or the zero Time if nothing waits.
func (m *machine) wake() time.Time {
	switch {
	case len(m.gather.parts) == 0:
		return time.Time{}
	case m.hold > 0:
		return m.gather.since.Add(m.hold)
	}
	return m.inflight.next()
}

// refused processes the refusal of a write that was sent alone.
func (m *machine) refused(w *Write, err error, now time.Time) {
	switch {
	case cluster.IsNoSpace(err):
		m.noSpace = true
	case cluster.IsPermissionDenied(err), cluster.IsLeaseNotFound(err):
		m.quarantine.add(w, now)
	}
}

// refusedBatch processes the refusal of a request of several parts.
func (m *machine) refusedBatch(parts []*part, err error) {
	bytes, ops := 0, 0
	for _, p := range parts {
		bytes += p.size
		ops = max(ops, p.ops())
	}
	switch {
	case cluster.IsNoSpace(err):
		m.noSpace = true
	case cluster.IsTooManyOps(err):
		m.limits.ops = min(m.limits.ops, max((len(parts)+ops)/2, fewestOps))
	case cluster.IsTooLarge(err):
		m.limits.bytes = min(m.limits.bytes, bytes/2)
	}
}

// fewestOps is the number of operations of a request of one write. At this limit no two writes share a
// request.
const fewestOps = 1
