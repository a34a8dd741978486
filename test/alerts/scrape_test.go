package alerts

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/observe/prom"
)

// interval is how often instances are scraped and rules evaluated.
const interval = 15 * time.Second

// A sample is one value of a series, since the beginning.
type sample struct {
	of    labels.Labels
	at    time.Duration
	value float64
}

// scraped is what Prometheus gets of one Collector while f sends it events, f's own
// time being that of the scrapes: one each interval, the first at 0.
func scraped(t *testing.T, opts prom.Options, length time.Duration, f func(c *prom.Collector)) (all []sample) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := prom.New(opts)
		r := prometheus.NewPedanticRegistry()
		require.NoError(t, r.Register(c))
		go f(c) // ends by itself, at the latest with the bubble
		for at := time.Duration(0); at <= length; at += interval {
			synctest.Wait()
			families, err := r.Gather()
			require.NoError(t, err)
			for _, family := range families {
				for _, m := range family.Metric {
					all = append(all, samples(family.GetName(), m, at)...)
				}
			}
			time.Sleep(interval)
		}
	})
	return all
}

// samples are those of one metric, as an exposition has them.
func samples(name string, m *dto.Metric, at time.Duration) (all []sample) {
	add := func(suffix string, value float64, more ...string) {
		b := labels.NewScratchBuilder(8)
		b.Add("__name__", name+suffix)
		b.Add("job", "app")
		b.Add("instance", "host-1:80")
		for _, l := range m.Label {
			b.Add(l.GetName(), l.GetValue())
		}
		for i := 0; i < len(more); i += 2 {
			b.Add(more[i], more[i+1])
		}
		b.Sort()
		all = append(all, sample{b.Labels(), at, value})
	}
	switch {
	case m.Counter != nil:
		add("", m.Counter.GetValue())
	case m.Gauge != nil:
		add("", m.Gauge.GetValue())
	case m.Histogram != nil:
		for _, b := range m.Histogram.Bucket {
			add("_bucket", float64(b.GetCumulativeCount()), "le", fmt.Sprint(b.GetUpperBound()))
		}
		add("_bucket", float64(m.Histogram.GetSampleCount()), "le", "+Inf")
		add("_sum", m.Histogram.GetSampleSum())
		add("_count", float64(m.Histogram.GetSampleCount()))
	}
	return all
}

// epoch is when the storage begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// stored is a storage with all samples.
func stored(t *testing.T, all []sample) *teststorage.TestStorage {
	t.Helper()
	s := teststorage.New(t)
	app := s.Appender(context.Background())
	for _, v := range all {
		_, err := app.Append(0, v.of, epoch.Add(v.at).UnixMilli(), v.value)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	return s
}
