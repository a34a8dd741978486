package prom

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-locks/pawl/internal/cause"
	"github.com/pawl-locks/pawl/observe"
)

// labels are those of a lock or an election. name is empty without Options.Name.
type labels struct {
	kind string
	mode observe.Mode
	name string
}

const (
	aLock       = "lock"
	anElection  = "election"
	unknownLine = -1
)

func (c *Collector) labels(kind string, of observe.Acquisition) labels {
	l := labels{kind: kind, mode: cmp.Or(of.Mode, observe.Exclusive)}
	if c.opts.Name != nil {
		// A name may be any bytes, and Prometheus panics at a label that is not UTF-8.
		l.name = strings.ToValidUTF8(c.opts.Name(of.Name), "\uFFFD")
	}
	return l
}

// values are l's values, and more.
func (c *Collector) values(l labels, more ...string) []string {
	values := []string{l.kind, string(l.mode)}
	if c.opts.Name != nil {
		values = append(values, l.name)
	}
	return append(values, more...)
}

// observeAcquisition processes the events of acquisitions and campaigns.
func (c *Collector) observeAcquisition(ev observe.Event) {
	switch ev := ev.(type) {
	case observe.LockEnqueued:
		c.enqueued(c.labels(aLock, ev.Acquisition), ev.ID, ev.Ahead)
	case observe.CampaignEnqueued:
		c.enqueued(c.labels(anElection, ev.Acquisition), ev.ID, ev.Ahead)
	case observe.LockAcquired:
		c.won(c.labels(aLock, ev.Acquisition), ev.ID, ev.How, ev.Wait)
	case observe.TermElected:
		c.won(c.labels(anElection, ev.Acquisition), ev.ID, ev.How, ev.Wait)
	case observe.LockGaveUp:
		c.gone(c.labels(aLock, ev.Acquisition), ev.ID, ev.Err)
	case observe.CampaignGaveUp:
		c.gone(c.labels(anElection, ev.Acquisition), ev.ID, ev.Err)
	case observe.LockReleased:
		c.finished(c.labels(aLock, ev.Acquisition), ev.ID, ev.Held, nil, ev.Pending)
	case observe.LockLost:
		c.finished(c.labels(aLock, ev.Acquisition), ev.ID, ev.Held, ev.Err, nil)
	case observe.TermEnded:
		c.finished(c.labels(anElection, ev.Acquisition), ev.ID, ev.Led, ev.Err, ev.Pending)
	case observe.TermProclaimed:
		c.proclaim.WithLabelValues(c.values(c.labels(anElection, ev.Acquisition), result(ev.Err))[2:]...).Inc() // elections have one mode
	case observe.Progressed:
		c.progressed(ev)
	case observe.JobRan:
		l := c.labels(aLock, observe.Acquisition{Name: ev.Name})
		c.late.WithLabelValues(c.values(l)[2:]...).Observe(ev.Late.Seconds())
		c.skipped.WithLabelValues(c.values(l)[2:]...).Add(float64(ev.Skipped))
		c.runs.WithLabelValues(c.values(l, "ok")[2:]...)
		c.runs.WithLabelValues(c.values(l, "failed")[2:]...)
		c.runs.WithLabelValues(c.values(l, result(ev.Err))[2:]...).Inc()
	}
}

// result is the label's value of what ended with err.
func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (c *Collector) enqueued(l labels, id int64, ahead int) {
	c.appear(l)
	if ahead != unknownLine {
		c.ahead.WithLabelValues(c.values(l)...).Observe(float64(ahead))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[id] = waiter{l, time.Now()}
}

// left removes one from the waiting ones.
func (c *Collector) left(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

func (c *Collector) won(l labels, id int64, how observe.How, wait time.Duration) {
	c.appear(l)
	c.left(id)
	c.wait.WithLabelValues(c.values(l, string(how))...).Observe(wait.Seconds())
	c.held.WithLabelValues(c.values(l)...).Inc()
}

func (c *Collector) gone(l labels, id int64, err error) {
	c.appear(l)
	c.left(id)
	c.gaveUp.WithLabelValues(c.values(l, cause.Of(err))...).Inc()
}

// progressed records when the time without progress of a hold began anew.
func (c *Collector) progressed(ev observe.Progressed) {
	kind := aLock
	if ev.Election {
		kind = anElection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Stall == 0 {
		delete(c.bounded, ev.ID)
		return
	}
	c.bounded[ev.ID] = waiter{c.labels(kind, ev.Acquisition), time.Now()}
}

func (c *Collector) finished(l labels, id int64, held time.Duration, lost, pending error) {
	c.mu.Lock()
	delete(c.bounded, id)
	c.mu.Unlock()
	c.held.WithLabelValues(c.values(l)...).Dec()
	c.hold.WithLabelValues(c.values(l)...).Observe(held.Seconds())
	if lost != nil {
		c.lost.WithLabelValues(c.values(l, cause.Of(lost))...).Inc()
	}
	if pending != nil {
		c.pending.WithLabelValues(c.values(l)...).Inc()
	}
}

// collectWaiting computes how many wait, and since when, and for how long holds have made no progress.
func (c *Collector) collectWaiting(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	waiting, bounded := oldest(c.waiting), oldest(c.bounded)
	c.mu.Unlock()
	for of, l := range waiting {
		ch <- prometheus.MustNewConstMetric(c.line, prometheus.GaugeValue, float64(l.n), c.values(of)...)
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, time.Since(l.oldest).Seconds(), c.values(of)...)
	}
	for of, l := range bounded {
		ch <- prometheus.MustNewConstMetric(c.idle, prometheus.GaugeValue, time.Since(l.oldest).Seconds(), c.values(of)...)
	}
}

// line is how many of all have the same labels, and since when the oldest is there.
type line struct {
	n      int
	oldest time.Time
}

func oldest(all map[int64]waiter) map[labels]line {
	lines := map[labels]line{}
	for _, w := range all {
		l, there := lines[w.labels]
		if l.n++; !there || w.since.Before(l.oldest) {
			l.oldest = w.since
		}
		lines[w.labels] = l
	}
	return lines
}
