package etcdfake

import (
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/wire"
)

// These are the faults of a member. Each lasts until Heal.

// BlackHole makes the member neither send nor receive, while its connections stay and new ones
// are accepted. What is sent meanwhile, up to a socket's buffer, arrives after Heal.
func (m *Member) BlackHole() {
	m.up.Hold(true)
	m.down.Hold(true)
}

// Swallow makes the member's connections neither deliver nor end, ever, while new ones are served,
// without the delays of SetDelay.
func (m *Member) Swallow() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.up.Hold(true)
	m.down.Hold(true)
	m.up, m.down = wire.NewLink(), wire.NewLink()
}

// SwallowRequests makes the member's connections deliver nothing that clients send, ever, while
// events and answers still arrive. New connections are served, without the delays of SetDelay on
// what clients send.
func (m *Member) SwallowRequests() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.up.Hold(true)
	m.up = wire.NewLink()
}

// Halt stops the member as SIGSTOP does. Its connections stay, and new ones are accepted, but it
// neither reads nor answers, and its peers do not hear it. If it led, the others elect another
// leader after 1.2 election timeouts. What needed agreement and was sent to them meanwhile is lost,
// and fails after 5 s and two election timeouts.
func (m *Member) Halt() {
	m.BlackHole()
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.halt()
}

// Deafen delays what clients send; the member's answers still arrive.
func (m *Member) Deafen() { m.up.Hold(true) }

// Mute delays the member's answers; requests still arrive and are applied.
func (m *Member) Mute() { m.down.Hold(true) }

// Cut resets the member's connections and refuses new ones.
func (m *Member) Cut() {
	m.refusing.Store(true)
	m.Reset()
}

// Reset resets the member's connections; new ones are accepted.
func (m *Member) Reset() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for c := range m.conns {
		c.Reset()
	}
	clear(m.conns)
}

// Isolate separates the member from its peers, while clients still reach it. It serves serializable
// reads at its current state, its watches are silent, and requests that need agreement fail after 5
// s and two election timeouts. With the hasleader metadata, requests fail at once after one
// election timeout, and streams end after 3.7. An isolated leader confirms renewals for 1.9
// election timeouts more, without effect, while the others have a new leader. Without a majority in
// contact, nobody has a leader, and no lease expires.
func (m *Member) Isolate() { m.setContact(isolated) }

// Depose elects another leader, while the member still acts as the leader of the old raft term. It
// confirms renewals of the leases it knew, without effect, and shows the old raft term and its
// current state. Requests that need agreement time out, and no stream ends. With one member the
// cluster continues without a leader.
func (m *Member) Depose() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.leader != m.index {
		m.c.lead(m.index)
	}
	m.setContactLocked(deposed)
}

// Stop ends the member as a crash does. Heal starts it again.
func (m *Member) Stop() {
	m.setContact(stopped)
	m.Cut()
}

// Freeze keeps the member's reads, linearizable ones too, and its watches at the current state,
// like a server with a stale-read bug, while it still applies what is written through it.
func (m *Member) Freeze() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.freeze()
}

func (m *Member) setContact(s contact) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.setContactLocked(s)
}

// Heal ends the member's faults: it runs, reaches its peers and sees everything, and the network
// delivers. Rules, delays, learner, version and cluster ID stay.
func (m *Member) Heal() {
	m.setContact(inTouch)
	m.c.mu.Lock()
	m.thaw()
	m.c.mu.Unlock()
	m.refusing.Store(false)
	m.up.Hold(false)
	m.down.Hold(false)
}

// SetDelay delays everything that goes to or from the member by what up and down return, which are
// called for each write to a connection. nil means no delay.
func (m *Member) SetDelay(up, down func() time.Duration) {
	m.up.SetDelay(up)
	m.down.SetDelay(down)
}

// SetVersion sets the version that Status reports.
func (m *Member) SetVersion(v string) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.version = v
}

// SetLearner makes the member a learner, which serves next to nothing, or a voter.
func (m *Member) SetLearner(learner bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.learner = learner
}

// SetClusterID makes the member answer as one of another cluster. 0 means its real one.
func (m *Member) SetClusterID(id uint64) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.clusterID = id
}

// Fixed is a delay for SetDelay that is always the same.
func Fixed(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// BlackHole is Member.BlackHole for every member.
func (c *Cluster) BlackHole() { c.each((*Member).BlackHole) }

// Cut is Member.Cut for every member.
func (c *Cluster) Cut() { c.each((*Member).Cut) }

// Heal is Member.Heal for every member.
func (c *Cluster) Heal() { c.each((*Member).Heal) }

func (c *Cluster) each(f func(*Member)) {
	for _, m := range c.members {
		f(m)
	}
}

// ChangeLeader makes member i the leader of a new raft term. Every lease gets its full TTL again,
// and an election timeout on top.
func (c *Cluster) ChangeLeader(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lead(i)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Leader returns the index of the member that leads, or -1, and the raft term.
func (c *Cluster) Leader() (index int, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.term
}

// SetClockRate makes the leader's clock run r times as fast as ours. Leases that are granted or
// renewed afterwards last accordingly.
func (c *Cluster) SetClockRate(r float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Lessor.Rate = r
}

// SetNoSpace raises or lifts the NOSPACE alarm. While it is raised, every request that would store
// something is refused and not applied; deletions and reads are served.
func (c *Cluster) SetNoSpace(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.NoSpace = on
}
