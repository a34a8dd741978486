package prom

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/observe"
)

// Options are the options of a Collector. The zero value is the default.
type Options struct {
	// Name adds the label name, whose value it makes from a lock's or an election's name. It should
	// return few different values, because each gets a series that is never removed. If it is nil,
	// there is no such label.
	Name func(name string) string
	// Sessions is how many sessions pawl_session_validity_seconds shows at most, those with the
	// least left. 0 means 100; below 0 means none.
	Sessions int
	// ConstLabels are on all metrics.
	ConstLabels prometheus.Labels
}

// A Collector is an observe.Observer and a prometheus.Collector. Its methods are safe for
// concurrent use.
type Collector struct {
	opts Options
	metrics

	mu       sync.Mutex
	sessions map[int64]func() time.Duration // remaining validity of valid ones, by lease
	waiting  map[int64]waiter               // by the ID of the acquisition
	bounded  map[int64]waiter               // of the holds with a Stall, since the last progress
	known    map[labels]bool                // whose series exist
	counted  map[run]observe.ShardsCounted  // by runs of shards that have not left
}

// A waiter is an acquisition or a campaign that is in a queue, or waits for progress.
type waiter struct {
	labels labels
	since  time.Time
}

// New makes a Collector, to be registered once.
func New(opts Options) *Collector {
	if opts.Sessions == 0 {
		opts.Sessions = 100
	}
	c := &Collector{
		opts: opts, metrics: newMetrics(opts),
		sessions: make(map[int64]func() time.Duration), waiting: make(map[int64]waiter), bounded: make(map[int64]waiter), known: make(map[labels]bool), counted: make(map[run]observe.ShardsCounted),
	}
	c.begin()
	return c
}

// Observe implements observe.Observer.
func (c *Collector) Observe(_ context.Context, ev observe.Event) {
	switch ev := ev.(type) {
	case observe.SessionGranted:
		c.granted.Inc()
		c.begun(ev.Lease, ev.Left)
	case observe.SessionRenewed:
		c.renewal.WithLabelValues(ev.Member).Observe(ev.RoundTrip.Seconds())
	case observe.SessionHedged:
		c.hedged.WithLabelValues(ev.Slow).Inc()
	case observe.SessionInJeopardy:
		c.jeopardy.Inc()
	case observe.SessionLost:
		c.ended(ev.Lease, ev.Err)
	case observe.SessionClosed:
		c.ended(ev.Lease, ev.Err)
	case observe.Reclaimed:
		c.reclaimed.Inc()
	case observe.MemberSwitched:
		c.switches.WithLabelValues(ev.From).Inc()
	case observe.WriteFenced:
		c.fenced.WithLabelValues("etcd").Inc()
	case observe.ShardHeld:
		c.shardHeld(ev)
	case observe.ShardEnded:
		c.shardEnded(ev)
	case observe.ShardsCounted:
		c.shardsCounted(ev)
	default:
		c.observeAcquisition(ev)
	}
}

// Refused counts err in pawl_fenced_total if it is a guard's refusal of a stale token, a
// *fencing.StaleError, and reports whether it was. Use it for refusals by fencing.Gate, sqlfence
// and the like, which nothing else reports.
func (c *Collector) Refused(err error) bool {
	var stale *fencing.StaleError
	refused := errors.As(err, &stale)
	if refused {
		c.fenced.WithLabelValues("storage").Inc()
	}
	return refused
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.all() {
		m.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{c.valid, c.validity, c.oldest, c.line, c.idle, c.unowned, c.resting, c.unplanned, c.load, c.unmeasured} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.all() {
		m.Collect(ch)
	}
	c.collectSessions(ch)
	c.collectWaiting(ch)
	c.collectShards(ch)
}
