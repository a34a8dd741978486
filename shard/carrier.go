package shard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/lock"
)

// A carrier is a session that shards' keys are on: the member's own, and, as soon as that has
// shards.KeysPerLease of them, further ones (rule SH11). Only Run's goroutine uses it.
type carrier struct {
	m       *member
	session *pawl.Session
	s       *session.Session
	done    func() // ends the deferral of the lease's revocation
	keys    int    // shards that are queued for, or held, on it
	works   int    // works that run on it
	named   bool   // the member key is known to name it
	ended   bool
}

func newCarrier(session *pawl.Session) *carrier {
	s := hooks.SessionOf(session)
	return &carrier{session: session, s: s, done: s.DeferRevocation()}
}

// pending is an acquisition that waits for a carrier with room.
type pending struct {
	ctx    context.Context
	shard  int
	ifFree bool
}

// acquire queues for shard i, once there is a carrier with room.
func (m *member) acquire(ctx context.Context, i int, ifFree bool) {
	m.pending = append(m.pending, pending{ctx, i, ifFree})
	m.dispatch()
}

// dispatch starts the acquisitions for which there is room, and has carriers made for the others.
func (m *member) dispatch() {
	for len(m.pending) > 0 {
		c := m.roomy()
		if c == nil {
			m.makeCarriers()
			return
		}
		next := m.pending[0]
		m.pending = m.pending[1:]
		c.acquire(next.ctx, next.shard, next.ifFree)
	}
}

// roomy is the first carrier with room, so that the last ones become empty, or nil if none has.
func (m *member) roomy() *carrier {
	for _, c := range m.carriers {
		if c.named && c.keys < shards.KeysPerLease && c.s.Err() == nil {
			return c
		}
	}
	return nil
}

// makeCarriers makes as many carriers as the pending acquisitions need.
func (m *member) makeCarriers() {
	coming := m.making
	for _, c := range m.carriers {
		if !c.named {
			coming++
		}
	}
	now := time.Now()
	if m.ended || now.Before(m.makeAt) {
		return
	}
	for ; coming*shards.KeysPerLease < len(m.pending); coming++ {
		m.making++
		m.job(func() func() {
			session, err := m.client.NewSession(m.ctx, m.opts.Session)
			return func() {
				m.making--
				m.made(session, err)
			}
		})
	}
}

// made adds a carrier, which the member key names next.
func (m *member) made(session *pawl.Session, err error) {
	switch {
	case m.ended && err == nil:
		hooks.SessionOf(session).CloseInBackground()
	case m.ended:
	case err != nil:
		m.makeAt = time.Now().Add(m.makePace.Next())
		m.heedFatal(err)
		m.notify(Event{Kind: Retrying, Shard: -1, Err: err})
	default:
		m.makePace.Reset()
		c := newCarrier(session)
		c.m = m
		m.leases[c.s.ID()] = struct{}{}
		m.carriers = append(m.carriers, c)
		m.nameCarriers()
		c.s.RenewWith(m.s)
		context.AfterFunc(c.s.Context(), func() { m.post(c.lost) })
	}
}

// nameCarriers has the member key name the carriers besides its own session.
func (m *member) nameCarriers() {
	m.w.Self.Carriers = nil
	for _, c := range m.carriers[1:] {
		m.w.Self.Carriers = append(m.w.Self.Carriers, c.s.ID())
	}
}

// dropPending ends the pending acquisitions whose context has ended.
func (m *member) dropPending() {
	var ended []pending
	m.pending = slices.DeleteFunc(m.pending, func(p pending) bool {
		if p.ctx.Err() != nil {
			ended = append(ended, p)
		}
		return p.ctx.Err() != nil
	})
	for _, p := range ended {
		m.refused(p.shard, nil)
	}
}

// retire closes a carrier on which nothing is left, if the others have room for half of another one.
func (m *member) retire() {
	room := 0
	var idle *carrier
	for i, c := range m.carriers {
		if i > 0 && c.named && c.keys == 0 {
			idle = c
		}
		room += shards.KeysPerLease - c.keys
	}
	if idle != nil && len(m.pending) == 0 && room >= shards.KeysPerLease*3/2 {
		idle.drop()
		idle.s.CloseInBackground()
	}
}

// lost processes the end of a carrier's session. The holds on it learn of that by themselves. Their
// shards are queued for again, on another carrier.
func (c *carrier) lost() {
	if c.ended || c.m.ended {
		return
	}
	c.drop()
	for _, h := range c.m.holds {
		if h.c == c {
			h.lose()
		}
	}
}

// drop takes c out of the member's carriers.
func (c *carrier) drop() {
	m := c.m
	c.end()
	m.carriers = slices.DeleteFunc(m.carriers, func(other *carrier) bool { return other == c })
	m.nameCarriers()
}

// end lets the lease be revoked when no work runs on the carrier any more.
func (c *carrier) end() {
	c.ended = true
	if c.works == 0 {
		c.done()
	}
}

// acquire queues for shard i on c.
func (c *carrier) acquire(ctx context.Context, i int, ifFree bool) {
	m := c.m
	c.keys++
	m.job(func() func() {
		q := queue.Queue{Queue: m.keys.Queue(i)}
		works := &session.Deferral{}
		a, err := queue.Acquire(ctx, c.s, queue.Request{Value: keys.WithStall(keys.Plain(time.Now(), false), m.opts.Stall), Handoffs: true, Try: ifFree, Work: works,
			Enqueued: func() { m.post(func() { m.w.Prepared(i) }) }}, q)
		return func() {
			if err == nil && c.acquired(i, a, works) {
				return
			}
			c.keys--
			switch {
			case err == nil || ctx.Err() != nil || c.s.Err() != nil || errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrKeyDeleted):
				m.refused(i, nil)
			default:
				m.queueFailures.Failed(failureOf(err), err)
				m.refused(i, err)
				m.heedFatal(err)
			}
			m.dispatch()
		}
	})
}
