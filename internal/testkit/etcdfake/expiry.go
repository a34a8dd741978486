package etcdfake

import "github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
import "time"

// expire deletes leases when their time has come.
func (c *Cluster) expire() {
	for {
		wait := c.expireNow()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.kick:
		case <-c.done:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// expireNow deletes the leases that have expired and returns how long to wait.
func (c *Cluster) expireNow() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.leader >= 0 { // nobody but a leader ends leases
		for _, ls := range c.state.Lessor.Expired(now) {
			if !now.Before(c.tickAfter(ls.Expires)) {
				c.state.EndLease(ls, etcd.ByExpiry)
			}
		}
	}
	first, found := c.state.Lessor.Next()
	if !found || c.leader < 0 {
		return 24 * time.Hour
	}
	return max(time.Nanosecond, time.Until(c.tickAfter(first)))
}

// tickAfter is when the lessor next checks for leases that expired at t.
func (c *Cluster) tickAfter(t time.Time) time.Time {
	tick := c.opts.ExpiryTick
	if tick < 0 {
		return t
	}
	d := t.Sub(c.started)
	return c.started.Add((d + tick - 1) / tick * tick)
}

// hurry makes the expirer check again. The caller need not hold c.mu.
func (c *Cluster) hurry() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}
