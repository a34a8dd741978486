package prom

import (
	"github.com/pawl-locks/pawl/internal/cause"
	"github.com/pawl-locks/pawl/observe"
)

// A counter that begins to exist at 1 shows no increase, so no alert would fire at its first
// event. The series that alerts read therefore begin at 0, as soon as their labels are known.

// begin begins the series whose labels are known from the start.
func (c *Collector) begin() {
	c.fenced.WithLabelValues("etcd")
	c.fenced.WithLabelValues("storage")
	if c.opts.Name == nil {
		c.beginLosses(c.labels(aLock, observe.Acquisition{Mode: observe.Exclusive}))
		c.beginLosses(c.labels(aLock, observe.Acquisition{Mode: observe.Shared}))
		c.beginLosses(c.labels(aLock, observe.Acquisition{Mode: observe.Semaphore}))
		c.beginLosses(c.labels(anElection, observe.Acquisition{}))
	}
}

// appear begins the series of l at its first acquisition or campaign, so that a name which is
// waited for and never held shows 0 holders.
func (c *Collector) appear(l labels) {
	c.mu.Lock()
	known := c.known[l]
	c.known[l] = true
	c.mu.Unlock()
	if !known {
		c.held.WithLabelValues(c.values(l)...)
		c.beginLosses(l)
	}
}

func (c *Collector) beginLosses(l labels) {
	for _, word := range cause.Losses() {
		c.lost.WithLabelValues(c.values(l, word)...)
	}
}
