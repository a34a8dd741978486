package alerts

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const deployed = "../../cmd/pawld/deploy/"

// counters are pawld's, which are 0 from the beginning.
var counters = []string{
	"pawld_stalls_total", "pawld_etcd_sessions_lost_total", "pawld_promises_cut_total", "pawld_orphans_total",
	"pawld_locks_expired_total", "pawld_locks_overheld_total", "pawld_connections_refused_total",
}

// ofPawld is what Prometheus gets of one pawld in which nothing happens until at, when a
// sample of a series becomes value, and stays so for as long as that lasts.
func ofPawld(length, at, lasts time.Duration, name string, value float64, more ...string) (all []sample) {
	series := func(name string, more ...string) labels.Labels {
		return labels.FromStrings(append([]string{"__name__", name, "job", "pawld", "instance", "host-1:8377"}, more...)...)
	}
	for now := time.Duration(0); now <= length; now += interval {
		values := map[string]float64{"pawld_ready": 1, "pawld_sessions": 2, "pawld_locks_held": 3, "pawld_locks_waiting": 1, "pawld_connections": 4}
		for _, c := range counters {
			values[c] = 0
		}
		all = append(all, sample{series("pawld_requests_total", "call", "Renew", "code", "ok"), now, float64(now / time.Second)})
		happened := now >= at && now < at+lasts
		for other, v := range values {
			if other == name && happened {
				v = value
			}
			all = append(all, sample{series(other), now, v})
		}
		if len(more) > 0 && happened {
			all = append(all, sample{series(name, more...), now, value})
		}
	}
	return all
}

func TestPawldsAlertsFireAtTheFirstEventAndNotBefore(t *testing.T) {
	const at, forGood = 10 * time.Minute, time.Hour
	for name, c := range map[string]struct {
		metric string
		value  float64
		more   []string
		want   string
		after  time.Duration
	}{
		"nothing":                     {},
		"etcd does not answer":        {metric: "pawld_ready", value: 0, want: "PawldNotReady", after: time.Minute},
		"its session is lost":         {metric: "pawld_etcd_sessions_lost_total", value: 1, want: "PawldSessionLost"},
		"a promise is cut":            {metric: "pawld_promises_cut_total", value: 1, want: "PawldPromisesCut"},
		"it stalls":                   {metric: "pawld_stalls_total", value: 1, want: "PawldStalled"},
		"a client dies with a lock":   {metric: "pawld_locks_expired_total", value: 1, want: "PawldClientSilent"},
		"a lock is held for too long": {metric: "pawld_locks_overheld_total", value: 1, want: "PawldLockOverheld"},
		"a limit is reached":          {metric: "pawld_requests_total", value: 1, more: []string{"call", "Acquire", "code", "resource_exhausted"}, want: "PawldFull"},
		"a connection is refused":     {metric: "pawld_connections_refused_total", value: 1, want: "PawldFull"},
		"a request is refused":        {metric: "pawld_requests_total", value: 1, more: []string{"call", "Acquire", "code", "invalid_argument"}},
		"a client hears of no lock":   {metric: "pawld_orphans_total", value: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, engine, all := stored(t, ofPawld(20*time.Minute, at, forGood, c.metric, c.value, c.more...)), anEngine(t), rules(t, deployed+"alerts.yaml")
			assert.Empty(t, firing(t, engine, s, all, at-interval), "before")
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if c.after > 0 {
				assert.Empty(t, firing(t, engine, s, all, at+c.after-interval), "not at once")
			}
			assert.Equal(t, want, firing(t, engine, s, all, at+c.after))
			assert.Equal(t, want, firing(t, engine, s, all, at+4*time.Minute), "and goes on for minutes")
			if c.after == 0 {
				assert.Empty(t, firing(t, engine, s, all, at+6*time.Minute), "and not for ever")
			}
		})
	}
}

func TestEachQueryOfPawldsDashboardShowsSomething(t *testing.T) {
	s, engine := stored(t, ofPawld(5*time.Minute, 0, 0, "", 0)), anEngine(t)
	queries := queriesOf(t, deployed+"dashboard.json")
	require.Greater(t, len(queries), 12)
	for _, q := range queries {
		v := vector(t, engine, s, q, 4*time.Minute)
		if strings.HasSuffix(q, "> 0") {
			assert.Empty(t, v, q)
			continue
		}
		if assert.NotEmpty(t, v, q) {
			assert.False(t, v[0].F != v[0].F, "%s is not a number", q)
		}
	}
}

func TestTheDocumentationShowsPawldsAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/pawld.md")
	require.NoError(t, err)
	for _, r := range rules(t, deployed+"alerts.yaml") {
		assert.Contains(t, string(page), "`"+r.Alert+"`")
		assert.NotEmpty(t, r.Labels["severity"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.NotEmpty(t, r.Annotations["description"], r.Alert)
	}
}
