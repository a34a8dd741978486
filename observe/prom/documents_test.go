package prom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/metricspage"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/observe/prom"
)

// everything is an event of each kind.
var everything = []observe.Event{
	observe.SessionGranted{Lease: 1, Left: func() time.Duration { return time.Second }},
	observe.SessionRenewed{}, observe.SessionHedged{}, observe.SessionInJeopardy{},
	observe.SessionLost{Lease: 2, Err: lease.ErrExpired}, observe.SessionClosed{Lease: 3, Err: lease.ErrClosed},
	observe.LockEnqueued{Acquisition: observe.Acquisition{ID: 1}}, observe.LockAcquired{}, observe.LockGaveUp{Err: lease.ErrExpired},
	observe.LockReleased{Pending: lease.ErrExpired}, observe.LockLost{Err: lease.ErrExpired},
	observe.CampaignEnqueued{Acquisition: observe.Acquisition{ID: 2}}, observe.CampaignGaveUp{Err: lease.ErrExpired},
	observe.TermElected{}, observe.TermProclaimed{}, observe.TermEnded{}, observe.JobRan{},
	observe.ShardHeld{}, observe.ShardEnded{Why: observe.ShardMoved, Took: time.Second}, observe.ShardsCounted{Lease: 1}, observe.ShardsPlanned{},
	observe.MemberSwitched{}, observe.MemberServes{}, observe.WriteFenced{}, observe.Progressed{Acquisition: observe.Acquisition{ID: 3}, Stall: time.Second},
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// metrics are the labels of each metric, with Options.Name.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	ch := make(chan *prometheus.Desc, 100)
	prom.New(prom.Options{Name: strings.ToLower}).Describe(ch)
	close(ch)
	all := map[string][]string{}
	for d := range ch {
		m := described.FindStringSubmatch(d.String())
		require.NotNil(t, m, d)
		all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	require.Greater(t, len(all), 15)
	return all
}

var listed = regexp.MustCompile(`(?m)^//\t(pawl_\w+)(?:\{([\w,]*)\})? `)

func TestTheDocumentationListsEachMetricAndItsLabels(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	all := metrics(t)
	found := map[string][]string{}
	for _, m := range listed.FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	assert.Equal(t, all, found)
}

// The page of metrics has a row for each metric, and no other row.
func TestTheReferenceHasTheRowsOfAllMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	c := prom.New(prom.Options{Name: strings.ToLower})
	for _, ev := range everything {
		c.Observe(t.Context(), ev)
	}
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	labels, rows := metrics(t), metricspage.Rows(string(page), "pawl_")
	for _, f := range families {
		name := f.GetName()
		row, ok := rows[name]
		if !assert.True(t, ok, "%s has no row", name) {
			continue
		}
		assert.Equal(t, strings.ToLower(f.GetType().String()), row.Type, name)
		assert.NotEmpty(t, row.Unit, name)
		assert.Equal(t, strings.HasSuffix(name, "_seconds"), row.Unit == "seconds", name)
		assert.ElementsMatch(t, labels[name], row.Labels, name)
		assert.Equal(t, metricspage.Alerts(string(rules), name), row.Last, name)
		delete(rows, name)
		delete(labels, name)
	}
	assert.Empty(t, rows, "rows without a metric")
	assert.Empty(t, labels, "described, and not gathered")
}

// panel is as much of a Grafana panel as is looked at.
type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

type dashboard struct {
	Title      string  `json:"title"`
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Title)
	require.NotEmpty(t, d.UID)
	return d
}

var (
	metric   = regexp.MustCompile(`\bpawl_\w+`)
	selected = regexp.MustCompile(`(pawl_\w+)\{([^}]*)\}`)
	grouped  = regexp.MustCompile(`\bby \(([^)]*)\)`)
	label    = regexp.MustCompile(`(\w+)\s*(?:=~|=|!=|!~)`)
	part     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// The dashboard asks for metrics that there are, by labels that they have.
func TestTheDashboardAsksForMetricsThatThereAre(t *testing.T) {
	all := metrics(t)
	asked := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			used := metric.FindAllString(target.Expr, -1)
			require.NotEmpty(t, used, p.Title)
			allowed := []string{"job", "instance", "le"} // the scraper's own, and a histogram's
			for _, name := range used {
				name = base(all, name)
				require.Contains(t, all, name, p.Title)
				asked[name] = true
				allowed = append(allowed, all[name]...)
			}
			for _, s := range selected.FindAllStringSubmatch(target.Expr, -1) {
				for _, l := range label.FindAllStringSubmatch(s[2], -1) {
					assert.Contains(t, append(all[base(all, s[1])], "job", "instance"), l[1], "%s: %s", p.Title, target.Expr)
				}
			}
			for _, g := range grouped.FindAllStringSubmatch(target.Expr, -1) {
				for l := range strings.SplitSeq(g[1], ",") {
					assert.Contains(t, allowed, strings.TrimSpace(l), "%s: %s", p.Title, target.Expr)
				}
			}
			assert.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), target.Expr)
		}
	}
	text, err := os.ReadFile("dashboard.json") // the variables and the annotations too
	require.NoError(t, err)
	for _, name := range metric.FindAllString(string(text), -1) {
		assert.Contains(t, all, base(all, name))
	}
	for name := range all {
		assert.True(t, asked[name], "no panel shows %s", name)
	}
}

// base is the metric that a series of a histogram belongs to.
func base(all map[string][]string, name string) string {
	if _, ok := all[name]; ok {
		return name
	}
	return part.ReplaceAllString(name, "")
}

func TestTheDashboardsPanelsHaveIDsOfTheirOwnAndDoNotOverlap(t *testing.T) {
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		assert.Empty(t, ids[p.ID], "%s has the ID of another", p.Title)
		ids[p.ID] = p.Title
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Empty(t, taken[at], "%s lies over another", p.Title)
				taken[at] = p.Title
			}
		}
	}
}
