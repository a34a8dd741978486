package prom

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-locks/pawl/internal/cause"
)

func (c *Collector) begun(lease int64, left func() time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[lease] = left
}

func (c *Collector) ended(lease int64, err error) {
	c.over.WithLabelValues(cause.Of(err)).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, lease)
}

// collectSessions reads how much validity each session has left, by the clock, at
// the scrape.
func (c *Collector) collectSessions(ch chan<- prometheus.Metric) {
	type session struct {
		lease int64
		left  time.Duration
	}
	c.mu.Lock()
	all := maps.Clone(c.sessions)
	c.mu.Unlock()
	valid := make([]session, 0, len(all))
	for lease, left := range all { // without the mutex, because this read can end a session
		if d := left(); d > 0 {
			valid = append(valid, session{lease, d})
		}
	}
	ch <- prometheus.MustNewConstMetric(c.valid, prometheus.GaugeValue, float64(len(valid)))
	slices.SortFunc(valid, func(a, b session) int { return cmp.Compare(a.left, b.left) })
	for _, s := range valid[:min(len(valid), max(0, c.opts.Sessions))] {
		ch <- prometheus.MustNewConstMetric(c.validity, prometheus.GaugeValue, s.left.Seconds(), strconv.FormatInt(s.lease, 16))
	}
}
