package together

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// machine decides what goes when, and with what. It is pure: events come in as
// calls, with the time, and what is to be done comes out. Its Sender guards it.
type machine struct {
	lanes   lanes
	gather  gather
	apart   apart
	limits  limits
	noSpace bool          // no put has succeeded since the cluster said that it has no space
	hold    time.Duration // for tests: everything gathers, and goes after so long; 0: it does not
}

func newMachine() machine {
	return machine{limits: limits{mostParts, mostBytes, mostOps}}
}

// effects are what an event asks for. The zero one asks for nothing.
type effects struct {
	send   []*part // as one request; one alone goes by itself, as it is
	ticket int     // of that request
	avoid  *cluster.Member
}

// offer is a write that wants to go. With a nil part it goes at once, with the
// ticket; otherwise the part waits. together: the cluster may be sent writes
// together (rule G11). alone: this one is to go alone.
func (m *machine) offer(w *Write, together, alone bool, now time.Time) (p *part, ticket int, fx effects) {
	if alone || !together || w.Kind == Alone || m.hold == 0 && m.lanes.open() || m.apart.has(w, now) {
		return nil, m.lanes.take(now), effects{}
	}
	size, writes := sizeOf(w), w.puts()
	if len(m.gather.parts) > 0 && m.overfull(w, size) {
		fx = m.flush(now)
	}
	if !m.gather.admits(w, size, writes, m.noSpace, m.limits) {
		return nil, m.lanes.take(now), fx
	}
	p = newPart(*w, size, writes)
	m.gather.add(p, now)
	if len(m.gather.parts) == m.limits.parts {
		fx = m.flush(now)
	}
	return p, 0, fx
}

// overfull reports whether w would fit into a request, and does not into this one.
func (m *machine) overfull(w *Write, size int) bool {
	var empty gather
	return empty.admits(w, size, false, false, m.limits) &&
		(m.gather.bytes+size > m.limits.bytes || len(m.gather.parts)+1+max(m.gather.ops, w.ops()) > m.limits.ops)
}

// flush lets go what waits.
func (m *machine) flush(now time.Time) effects {
	return effects{send: m.gather.take(), ticket: m.lanes.take(now), avoid: m.lanes.silent()}
}

// next lets go what waits if there is a lane; or if as many attempts as there are lanes
// have ended meanwhile, for those that go alone may take every one that is given back.
func (m *machine) next(now time.Time) effects {
	if len(m.gather.parts) == 0 || m.hold > 0 || !m.lanes.open() && m.gather.passed < m.lanes.most() {
		return effects{}
	}
	return m.flush(now)
}

// began is an attempt that is sent.
func (m *machine) began(ticket int, to *cluster.Member, now time.Time) {
	m.lanes.began(ticket, to, now)
}

// ended is an attempt that has ended.
func (m *machine) ended(ticket int, answered bool, now time.Time) effects {
	if answered {
		m.lanes.answered(ticket, now)
	} else {
		m.lanes.ended(ticket)
	}
	m.gather.passed++
	return m.next(now)
}

// finished is a request that is over.
func (m *machine) finished(ticket int, now time.Time) effects {
	m.lanes.give(ticket)
	return m.next(now)
}

// tick is time that has passed.
func (m *machine) tick(now time.Time) effects {
	m.lanes.expire(now)
	if m.hold > 0 && len(m.gather.parts) > 0 && now.Sub(m.gather.since) >= m.hold {
		return m.flush(now)
	}
	return m.next(now)
}

// wake is when tick is to be called; the zero Time: nobody waits.
func (m *machine) wake() time.Time {
	switch {
	case len(m.gather.parts) == 0:
		return time.Time{}
	case m.hold > 0:
		return m.gather.since.Add(m.hold)
	}
	return m.lanes.next()
}

// refused takes in a write that went alone and was refused.
func (m *machine) refused(w *Write, err error, now time.Time) {
	switch {
	case cluster.IsNoSpace(err):
		m.noSpace = true
	case cluster.IsPermissionDenied(err):
		m.apart.denied(w, now)
	case cluster.IsLeaseNotFound(err):
		m.apart.gone(w, now)
	}
}

// refusedTogether takes in a request of several parts that was refused.
func (m *machine) refusedTogether(parts []*part, err error) {
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

// fewestOps is how many operations a request of one write has: no two go together then.
const fewestOps = 1

// put is a put that has succeeded.
func (m *machine) put() { m.noSpace = false }
