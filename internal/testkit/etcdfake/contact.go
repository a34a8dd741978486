package etcdfake

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// contact says which of its peers a member can reach.
type contact int

const (
	inTouch  contact = iota
	isolated         // neither it nor its peers reach the other
	deposed          // another member leads, and it acts as if it still led
	stopped          // it does not run
)

// setContactLocked changes a member's contact, elects a leader if necessary, and ends what cannot
// continue. The caller holds c.mu.
func (m *Member) setContactLocked(s contact) {
	c := m.c
	if s == inTouch && m.contact != inTouch || s == stopped {
		m.thaw()
	} else if s != inTouch && m.frozen == nil {
		m.freeze()
	}
	m.contact = s
	c.settle()
}

// settle elects, and notifies everything that waits for a leader. The caller holds c.mu.
func (c *Cluster) settle() {
	c.elect()
	for _, m := range c.members {
		m.noteLeader()
	}
	close(c.changed)
	c.changed = make(chan struct{})
	c.hurry()
}

// halt stops a member; if it led, the others elect another a while after. The caller holds c.mu.
func (m *Member) halt() {
	c := m.c
	c.voting = c.leader == m.index
	m.setContactLocked(stopped)
	if c.voting {
		c.laterLocked(c.opts.Election+c.opts.Election/5, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.voting = false
			c.settle()
		})
	}
}

// elect gives the cluster a leader if a majority is in touch. The caller holds c.mu.
func (c *Cluster) elect() {
	n, first, all := 0, -1, 0
	for i, m := range c.members {
		if !m.left {
			all++
		}
		if m.contact == inTouch {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	if n <= all/2 || c.voting {
		// A deposed member had a successor; any other that is cut off has none.
		c.leader = -1
	} else if c.leader < 0 || c.members[c.leader].contact != inTouch {
		c.lead(first)
	}
}

// lead makes member i the leader of a new term. The caller holds c.mu.
func (c *Cluster) lead(i int) {
	c.leader = i
	c.term++
	c.state.Lessor.Promote(time.Now(), c.opts.Election)
}

// noteLeader notes since when the member has no leader, and lets the streams
// that want one end when the time has come. The caller holds c.mu.
func (m *Member) noteLeader() {
	has := m.contact == deposed || m.contact == inTouch && m.c.leader >= 0
	if has {
		m.lostAt = time.Time{}
	} else if m.lostAt.IsZero() {
		m.lostAt = time.Now()
		m.endStreamsLater(m.lostAt)
	}
}

// streamPatience is how many election timeouts a stream that wants a leader outlives the leader.
// The member checks once in each, and ends the stream the third time in a row that it finds no
// leader. It notices the loss within the first.
const streamPatience = 3.7

func (m *Member) endStreamsLater(lost time.Time) {
	d := time.Duration(streamPatience * float64(m.c.opts.Election))
	m.c.laterLocked(d, func() {
		m.c.mu.Lock()
		defer m.c.mu.Unlock()
		if !m.lostAt.Equal(lost) {
			return
		}
		for s := range m.streams {
			if s.wantsLeader {
				s.cancel(rpctypes.ErrGRPCNoLeader)
			}
		}
	})
}

// knowsNoLeader reports whether the member has noticed that it has no leader.
// The caller holds c.mu.
func (m *Member) knowsNoLeader(now time.Time) bool {
	return !m.lostAt.IsZero() && now.Sub(m.lostAt) >= m.c.opts.Election
}

// freeze makes the member see nothing new. The caller holds c.mu.
func (m *Member) freeze() {
	c := m.c
	f := &lastView{rev: c.state.Store.Rev, term: c.term, leader: c.leader, leases: map[int64]int64{}}
	for id, ls := range c.state.Lessor.Leases {
		f.leases[id] = ls.TTL
	}
	m.frozen = f
	for s := range m.streams {
		s.seenUpTo(f.rev)
	}
}

// thaw lets the member catch up. The caller holds c.mu.
func (m *Member) thaw() {
	m.frozen = nil
	for s := range m.streams {
		s.pump()
	}
}

// requestTimeout is how long a member tries to reach agreement.
func (c *Cluster) requestTimeout() time.Duration { return 5*time.Second + 2*c.opts.Election }

// agree waits until the member's peers can agree on a request. If they cannot, it fails with err
// after as long as the server would try.
func (m *Member) agree(ctx context.Context, err error) error {
	timeout := time.NewTimer(m.c.requestTimeout())
	defer timeout.Stop()
	for {
		m.c.mu.Lock()
		ok := m.contact == inTouch && m.c.leader >= 0
		changed := m.c.changed
		m.c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-m.c.done:
			return errStopped
		}
	}
}

// propose is agree for what the member forwards to the leader once. A leader that halts loses it.
func (m *Member) propose(ctx context.Context, err error) error {
	m.c.mu.Lock()
	lost := m.c.voting
	m.c.mu.Unlock()
	if lost {
		return m.c.sleepThen(ctx, m.c.requestTimeout(), err)
	}
	return m.agree(ctx, err)
}
