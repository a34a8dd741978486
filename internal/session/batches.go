package session

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// offer adds c to those waiting for a batch, unless it is waiting or in a batch already.
func (r *Renewals) offer(c *candidate, due time.Time, ttl time.Duration, last *cluster.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions < minBatch || c.state != idle {
		return
	}
	c.due, c.ttl, c.last = due, ttl, last
	r.batcher.add(c)
	r.arm(c.latest())
}

// withdraw removes c if it is waiting for a batch.
func (r *Renewals) withdraw(c *candidate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batcher.remove(c)
}

// received says that the renewer has received the result of c's batch.
func (r *Renewals) received(c *candidate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.state = idle
}

// arm sets the timer to at, unless it fires earlier; r.mu is held.
func (r *Renewals) arm(at time.Time) {
	if at.IsZero() || !r.wake.IsZero() && !at.Before(r.wake) {
		return
	}
	r.wake = at
	if r.timer == nil {
		r.timer = time.AfterFunc(time.Until(at), r.sendDue)
	} else {
		r.timer.Reset(time.Until(at))
	}
}

// sendDue sends the batches that are due.
func (r *Renewals) sendDue() {
	now := time.Now()
	r.mu.Lock()
	r.wake = time.Time{}
	due := r.batcher.take(now)
	r.mu.Unlock()
	for _, c := range due {
		c.keys = c.renewer.s.readSize()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == 0 {
		return
	}
	r.arm(r.batcher.next())
	if len(due) == 0 {
		return
	}
	host, life := due[0].renewer.s.host, r.life
	for _, b := range r.batcher.split(due, func(last *cluster.Member) *cluster.Member { return host.Cluster.Pick(last) }) {
		// Bounded by life and renewalBound; the Cluster's Close waits for it.
		if !host.Cluster.Go(func() { r.send(life, host, b, now) }) {
			for _, c := range b.candidates {
				c.state = idle // its session ends with the Cluster
			}
		}
	}
}

// send makes the renewals of a batch. It waits for answers until half of the time has passed
// that remains until the first of them is due on its own; sessions without an answer by then
// renew alone.
func (r *Renewals) send(life context.Context, host Host, b batch, now time.Time) {
	k := renewal{host: host, member: b.member}
	bound := lateGrant
	for _, c := range b.candidates {
		k.parts = append(k.parts, &part{s: c.renewer.s})
		bound = min(bound, c.renewer.s.renewalBound())
	}
	ctx, cancel := context.WithTimeout(life, bound)
	defer cancel()
	answers, stop := context.WithTimeout(ctx, b.due().Sub(now)/2)
	err := k.keepAlive(answers)
	inTime := answers.Err() == nil
	stop()
	if err == nil || !inTime {
		r.answered(b.member, k.answered, len(k.parts))
	} else {
		k.blame(err)
	}
	k.confirm(ctx)
	t := &renewing{member: b.member, began: now}
	for i, c := range b.candidates {
		c.renewer.results <- finished{t, k.parts[i].result, true} // has room
	}
	k.finish()
}

// answered records that m answered n of a batch's renewals in time.
func (r *Renewals) answered(m *cluster.Member, n, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batcher.answered(m, n, of)
}

// readOps is how many operations a batch's read may have.
func (r *Renewals) readOps() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batcher.ops()
}

// readRefused records that a read of ops operations was refused as too long.
func (r *Renewals) readRefused(ops int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batcher.refused(ops)
}
