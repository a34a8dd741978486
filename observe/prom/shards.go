package prom

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-locks/pawl/observe"
)

// A run is a call of shard.Run.
type run struct {
	name  string
	lease int64
}

// ofShards are the values of the labels of metrics of a name's shards.
func (c *Collector) ofShards(name string, more ...string) []string {
	if c.opts.Name != nil {
		return append([]string{strings.ToValidUTF8(c.opts.Name(name), "\uFFFD")}, more...)
	}
	return more
}

func (c *Collector) shardHeld(ev observe.ShardHeld) {
	c.shards.WithLabelValues(c.ofShards(ev.Name)...).Inc()
}

func (c *Collector) shardEnded(ev observe.ShardEnded) {
	c.shards.WithLabelValues(c.ofShards(ev.Name)...).Dec()
	c.shardsOver.WithLabelValues(c.ofShards(ev.Name, string(ev.Why))...).Inc()
	if ev.Took > 0 {
		c.handover.WithLabelValues(c.ofShards(ev.Name)...).Observe(ev.Took.Seconds())
	}
}

func (c *Collector) shardsCounted(ev observe.ShardsCounted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := (run{ev.Name, ev.Lease}); ev.Left {
		delete(c.counted, of)
	} else {
		c.counted[of] = ev
	}
}

// collectShards shows what the runs have counted. If several have one name, it shows the worst, and the
// sum of their loads.
func (c *Collector) collectShards(ch chan<- prometheus.Metric) {
	type worst struct {
		labels                      []string
		unowned, resting, unplanned float64
		load, unmeasured            float64 // of all of them
	}
	all := map[string]worst{}
	c.mu.Lock()
	for of, ev := range c.counted {
		labels := c.ofShards(of.name)
		key := strings.Join(labels, "")
		w := all[key]
		all[key] = worst{labels, max(w.unowned, float64(ev.Unowned)), max(w.resting, float64(ev.Resting)), max(w.unplanned, ev.Unplanned.Seconds()),
			w.load + ev.Load, w.unmeasured + float64(ev.Unmeasured)}
	}
	c.mu.Unlock()
	for _, w := range all {
		ch <- prometheus.MustNewConstMetric(c.unowned, prometheus.GaugeValue, w.unowned, w.labels...)
		ch <- prometheus.MustNewConstMetric(c.resting, prometheus.GaugeValue, w.resting, w.labels...)
		ch <- prometheus.MustNewConstMetric(c.unplanned, prometheus.GaugeValue, w.unplanned, w.labels...)
		ch <- prometheus.MustNewConstMetric(c.load, prometheus.GaugeValue, w.load, w.labels...)
		ch <- prometheus.MustNewConstMetric(c.unmeasured, prometheus.GaugeValue, w.unmeasured, w.labels...)
	}
}
