package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/metricspage"
)

var healthy = regexp.MustCompile(`msg=health address=(127\.0\.0\.1:\d+)`)

// health is what one of the paths of --health gives.
func (p *pawld) health(path string) (status int, text string) {
	p.t.Helper()
	return p.healthBy(http.DefaultClient, path)
}

func (p *pawld) healthBy(client *http.Client, path string) (status int, text string) {
	p.t.Helper()
	eventually(p.t, func() bool { return healthy.MatchString(p.said()) })
	resp, err := client.Get("http://" + healthy.FindStringSubmatch(p.said())[1] + path)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(b)
}

// awaitReady waits until /readyz says that it serves.
func (p *pawld) awaitReady() {
	p.t.Helper()
	eventually(p.t, func() bool { status, _ := p.health("/readyz"); return status == http.StatusOK })
}

// metrics are the samples of /metrics; each has its help and its type.
func (p *pawld) metrics() map[string]string {
	p.t.Helper()
	return p.metricsBy(http.DefaultClient)
}

func (p *pawld) metricsBy(client *http.Client) map[string]string {
	p.t.Helper()
	status, text := p.healthBy(client, "/metrics")
	require.Equal(p.t, 200, status)
	all, about := map[string]string{}, map[string]int{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case words[0] == "#":
			about[words[2]]++
		default:
			require.Len(p.t, words, 2, line)
			name, _, _ := strings.Cut(words[0], "{")
			assert.Equal(p.t, 2, about[name], "HELP and TYPE of %s come before it", words[0])
			all[words[0]] = words[1]
		}
	}
	return all
}

func TestHealthTellsALiveProcessFromALockThatCanBeHad(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--health", "127.0.0.1:0")
	p.awaitReady()
	for _, path := range []string{"/livez", "/readyz"} {
		eventually(t, func() bool { // etcd may be slow
			status, text := p.health(path)
			return status == 200 && text == "ok\n"
		}, path)
	}
	status, _ := p.health("/other")
	assert.Equal(t, 404, status)

	lonely := begin(t, "--endpoints", "127.0.0.1:1", "--socket", launch.Socket(t), "--health", "127.0.0.1:0")
	status, _ = lonely.health("/livez")
	assert.Equal(t, 200, status, "a restart brings etcd back for nobody")
	status, text := lonely.health("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status, text)
	assert.Equal(t, "0", lonely.metrics()["pawld_ready"])
}

func TestMetricsCountWhatIsThere(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--health", "127.0.0.1:0")
	p.awaitReady()
	p.hold(1, 1, "a")
	p.hold(1, 2, "b")
	const acquired = `pawld_requests_total{call="Acquire",code="ok"}`
	before := p.metrics()[acquired]
	out, err := p.patient("Acquire", object{"session": hex32(2), "requestId": hex32(3), "names": []string{"a"}, "mode": "EXCLUSIVE", "ttlMs": longest.Milliseconds()})
	require.NoError(t, err)
	require.Equal(t, "WAITING", out["state"])
	got := p.metrics()
	assert.Equal(t, "2", got["pawld_sessions"])
	assert.Equal(t, "2", got["pawld_locks_held"])
	assert.Equal(t, "1", got["pawld_locks_waiting"])
	assert.Equal(t, "0", got["pawld_etcd_sessions_lost_total"])
	for _, name := range []string{"pawld_stalls_total", "pawld_promises_cut_total", "pawld_orphans_total", "pawld_locks_expired_total", "pawld_locks_overheld_total"} {
		assert.Contains(t, got, name)
	}
	eventually(t, func() bool { return p.metrics()["pawld_ready"] == "1" })
	n, err := strconv.Atoi(before)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, n, 2)
	assert.Equal(t, strconv.Itoa(n+1), got[acquired])
	p.raw("Acquire", "{}")
	assert.Equal(t, "1", p.metrics()[`pawld_requests_total{call="Acquire",code="invalid_argument"}`])
	p.call("Release", object{"session": hex32(1)})
	assert.Equal(t, "1", p.metrics()["pawld_sessions"])
}

// The page of metrics has a row for each metric, and no other row.
func TestTheReferenceHasTheRowsOfAllMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("deploy/alerts.yaml")
	require.NoError(t, err)
	p := start(t, ofShared(t), "", "--health", "127.0.0.1:0")
	p.awaitReady()
	p.hold(1, 1, "n")
	labels := map[string][]string{}
	for series := range p.metrics() {
		name, set, _ := strings.Cut(series, "{")
		labels[name] = []string{}
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(set, -1) {
			labels[name] = append(labels[name], l[1])
		}
	}
	_, text := p.health("/metrics")
	rows := metricspage.Rows(string(page), "pawld_")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		name := m[1]
		row, ok := rows[name]
		if !assert.True(t, ok, "%s has no row", name) {
			continue
		}
		assert.Equal(t, m[2], row.Type, name)
		assert.NotEmpty(t, row.Unit, name)
		assert.Equal(t, labels[name], row.Labels, name)
		assert.Equal(t, metricspage.Alerts(string(rules), name), row.Last, name)
		delete(rows, name)
	}
	assert.Empty(t, rows, "rows without a metric")
}
