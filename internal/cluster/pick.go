package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/observe"
)

// coolDown is how long Pick prefers others to a member that failed, give or take a tenth.
const coolDown = 5 * time.Second

// Members returns, in a new slice, the current members that can be used, or all if none can. Learners,
// and endpoints of another cluster, cannot.
func (c *Cluster) Members() []*Member {
	all := c.list()
	out := slices.DeleteFunc(slices.Clone(all), func(m *Member) bool { return !m.usable() })
	if len(out) == 0 {
		out = append(out, all...)
	}
	return out
}

// usable reports whether the member may be picked while there are others.
func (m *Member) usable() bool { return !m.learner.Load() && m.foreign.Load() == 0 }

// The grades of Pick, from the lowest. Each is worse than all lower ones together.
const (
	unready  = 1 << iota // it has no connection (if frozen, it takes one and says nothing), or a silent one
	cooling              // failed lately
	avoided              // the caller wants another
	learning             // a learner serves no linearizable request
	foreign              // another cluster's
)

// Pick returns the member to try next, and never nil. It is the first of those with the lowest grade,
// round robin, so that successive calls spread over all members. The best members are usable, not in
// avoid, have not failed within the cool-down, and are connected and not silent. If there are none, it
// prefers those whose only fault is that they are silent or not connected, then those in the cool-down,
// then those in avoid. A member that is not connected begins to connect, so that a later call finds it
// ready.
func (c *Cluster) Pick(avoid ...*Member) *Member {
	list := c.list()
	start := int(c.picks.Add(1) % uint64(len(list)))
	now := time.Since(c.began) // the clock of cool-downs
	var best *Member
	bestGrade := foreign << 1
	for i := range list {
		m := list[(start+i)%len(list)]
		if g := m.grade(now, avoid); g < bestGrade {
			best, bestGrade = m, g
		}
		if bestGrade == 0 {
			break
		}
	}
	return best
}

func (m *Member) grade(now time.Duration, avoid []*Member) int {
	g := 0
	if !m.ready() {
		g |= unready
	}
	if int64(now) < m.coolUntil.Load() {
		g |= cooling
	}
	if slices.Contains(avoid, m) {
		g |= avoided
	}
	if m.learner.Load() {
		g |= learning
	}
	if m.foreign.Load() != 0 {
		g |= foreign
	}
	return g
}

// Failed records that m did not serve, and why. For a cool-down of about 5 s, Pick prefers others.
func (c *Cluster) Failed(m *Member, err error) {
	if passing(err) {
		m.move()
	}
	why := explain(m, err)
	m.failure.Store(&why)
	if m.coolUntil.Swap(int64(time.Since(c.began)+backoff.Spread(coolDown))) == 0 {
		c.log.Warn("etcd member failing", "endpoint", m.Endpoint(), "error", textOf(err))
		c.events.Later(context.Background(), observe.MemberSwitched{From: m.Endpoint(), Err: err})
	}
}

// Failing says why each member failed that has not served since, or "" if there is none.
func (c *Cluster) Failing() string {
	var all []string
	for _, m := range c.list() {
		if err := m.failure.Load(); err != nil {
			all = append(all, (*err).Error())
		}
	}
	return strings.Join(all, "; ")
}

// Worked records that m served, which ends the cool-down. m is probed again, because it may run
// another version now.
func (c *Cluster) Worked(m *Member) {
	if m.failure.Load() != nil {
		m.failure.Store(nil)
	}
	if m.coolUntil.Load() != 0 && m.coolUntil.Swap(0) != 0 {
		c.log.Info("etcd member serves again", "endpoint", m.Endpoint())
		c.events.Later(context.Background(), observe.MemberServes{Member: m.Endpoint()})
		m.checked.Store(false)
		c.nudge()
	}
}

// uses reports whether m is in use, that is, in the list.
func (c *Cluster) uses(m *Member) bool { return slices.Contains(c.list(), m) }

// list is the current, immutable list of members. It is never empty.
func (c *Cluster) list() []*Member { return *c.members.Load() }
