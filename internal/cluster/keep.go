package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// recheckEvery is how often members are probed that have never answered, are learners, were set
// aside, or serve again after a failure.
const recheckEvery = 10 * time.Second

// urgentEvery is that interval while no endpoint is known to belong to the cluster.
const urgentEvery = time.Second

// Go runs f in a goroutine that Close waits for. f has to return soon after the Cluster has ended.
// After Close was called, Go returns false and does not run f.
func (c *Cluster) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut.Load() {
		return false
	}
	c.work.Go(f)
	return true
}

// nudge wakes the keeper, because there may be something to do.
func (c *Cluster) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keep probes members from time to time, until Close.
func (c *Cluster) keep() {
	var recheck <-chan time.Time
	var checked time.Time // when the last recheck ended
	for {
		switch {
		case c.id.Load() == 0: // nothing to do yet; see Reach
		case c.Err() == nil && c.noneIsOurs(1):
			recheck = time.After(urgentEvery - time.Since(checked))
		case recheck == nil && len(c.unchecked()) > 0:
			recheck = time.After(backoff.Spread(recheckEvery))
		}
		select {
		case <-c.life.Done():
			return
		case <-c.wake:
		case <-recheck:
			c.recheck()
			recheck, checked = nil, time.Now()
		}
	}
}

// unchecked returns the members whose state may still change, or is not known yet.
func (c *Cluster) unchecked() []*Member {
	return slices.DeleteFunc(slices.Clone(c.list()), func(m *Member) bool {
		return m.foreign.Load() == 0 && m.checked.Load() && !m.learner.Load()
	})
}

func (c *Cluster) recheck() {
	var wg sync.WaitGroup
	for _, m := range c.unchecked() {
		wg.Go(func() { _ = c.probe(m) }) // ends within probeTotal; the result is stored on the member
	}
	wg.Wait()
	c.endIfForeign()
}
