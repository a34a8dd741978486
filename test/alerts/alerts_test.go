package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/observe/prom"
)

// shipped are the rules that observe/prom ships.
func shipped(t *testing.T) []rulefmt.Rule { return rules(t, "../../observe/prom/alerts.yaml") }

// rules are those of a file.
func rules(t *testing.T, file string) []rulefmt.Rule {
	t.Helper()
	groups, errs := parse(file)
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

// vector is the value of expr at the time at.
func vector(t *testing.T, engine *promql.Engine, s storage.Queryable, expr string, at time.Duration) promql.Vector {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), s, nil, expr, epoch.Add(at))
	require.NoError(t, err, expr)
	defer q.Close()
	res := q.Exec(t.Context())
	require.NoError(t, res.Err, expr)
	v, err := res.Vector()
	require.NoError(t, err, expr)
	return slices.Clone(v)
}

// firing are the alerts that fire at the time at: their expression has given something at each
// evaluation for as long as they ask for.
func firing(t *testing.T, engine *promql.Engine, s storage.Queryable, rules []rulefmt.Rule, at time.Duration) (names []string) {
	t.Helper()
	for _, r := range rules {
		fires := true
		for back := time.Duration(0); fires && back <= time.Duration(r.For); back += interval {
			fires = at >= back && len(vector(t, engine, s, r.Expr, at-back)) > 0
		}
		if fires {
			names = append(names, r.Alert)
		}
	}
	return names
}

func anAcquisition(name string) observe.Acquisition { return observe.Acquisition{ID: 1, Name: name} }

// leads keeps the alert about nobody quiet, which is of use only where there are
// elections.
func leads(c *prom.Collector) {
	c.Observe(context.Background(), observe.TermElected{Acquisition: anAcquisition("leader")})
}

func TestAlertsFireAtTheFirstEventAndNotBefore(t *testing.T) {
	byName := prom.Options{Name: strings.ToLower}
	stale := &fencing.StaleError{Resource: "r", Got: 1, Highest: 2}
	// 7 s after the scrape of the 10th minute something happens.
	const quiet, happens = 10 * time.Minute, 7 * time.Second
	for name, c := range map[string]struct {
		opts   prom.Options
		before func(c *prom.Collector)
		event  func(c *prom.Collector)
		want   string
	}{
		"nothing":              {event: func(*prom.Collector) {}},
		"a lock is lost":       {event: lost(lease.ErrExpired), want: "PawlLockLost"},
		"the second":           {before: lost(lease.ErrExpired), event: lost(lease.ErrExpired), want: "PawlLockLost"},
		"of another cause":     {before: lost(lease.ErrExpired), event: lost(errors.New("another")), want: "PawlLockLost"},
		"by this process":      {event: lost(lease.ErrClosed)},
		"of a name never seen": {opts: byName, event: lost(lease.ErrExpired), want: "PawlLockLost"},
		"of a name seen": {opts: byName, before: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.LockAcquired{Acquisition: anAcquisition("a")})
		},
			event: func(c *prom.Collector) {
				c.Observe(context.Background(), observe.LockLost{Acquisition: anAcquisition("a"), Err: lease.ErrRevoked})
			}, want: "PawlLockLost"},
		"a term is lost": {event: func(c *prom.Collector) {
			leads(c)
			c.Observe(context.Background(), observe.TermEnded{Acquisition: anAcquisition("e"), Err: lease.ErrExpired})
		}, want: "PawlLockLost"},
		"a write of etcd's is fenced":  {event: func(c *prom.Collector) { c.Observe(context.Background(), observe.WriteFenced{}) }, want: "PawlWriteFenced"},
		"a write to storage is fenced": {event: func(c *prom.Collector) { c.Refused(stale) }, want: "PawlWriteFenced"},
		"a session is in jeopardy":     {event: func(c *prom.Collector) { c.Observe(context.Background(), observe.SessionInJeopardy{}) }, want: "PawlSessionInJeopardy"},
		"a member is slow": {event: func(c *prom.Collector) {
			for range 10 {
				c.Observe(context.Background(), observe.SessionRenewed{Member: "m", RoundTrip: 3 * time.Second})
			}
		}, before: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.SessionRenewed{Member: "m", RoundTrip: time.Millisecond})
		}, want: "PawlMemberSlow"},
		"nobody leads any more": {event: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.TermEnded{Acquisition: anAcquisition("leader")})
		}, want: "PawlNobodyLeads"},
	} {
		t.Run(name, func(t *testing.T) {
			all := scraped(t, c.opts, 2*quiet, func(of *prom.Collector) {
				leads(of)
				if c.before != nil {
					c.before(of)
				}
				time.Sleep(quiet + happens)
				c.event(of)
			})
			s, engine, rules := stored(t, all), anEngine(t), shipped(t)
			assert.Empty(t, firing(t, engine, s, rules, quiet), "before")
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			// The next evaluation, for an alert that waits a minute the first after it.
			after := quiet + interval
			if c.want == "PawlNobodyLeads" {
				assert.Empty(t, firing(t, engine, s, rules, after), "not at once")
				after += time.Minute
			}
			assert.Equal(t, want, firing(t, engine, s, rules, after))
			assert.Equal(t, want, firing(t, engine, s, rules, after+3*time.Minute), "and goes on for minutes")
			if c.want != "PawlNobodyLeads" && c.want != "PawlMemberSlow" {
				assert.Empty(t, firing(t, engine, s, rules, quiet+7*time.Minute), "and not for ever")
			}
		})
	}
}

func lost(err error) func(c *prom.Collector) {
	return func(c *prom.Collector) {
		c.Observe(context.Background(), observe.LockAcquired{Acquisition: anAcquisition("a")})
		c.Observe(context.Background(), observe.LockLost{Acquisition: anAcquisition("a"), Err: err})
	}
}

// Shards that nobody works on are an alarm after two minutes, and one that nobody plans after one.
func TestShardsThatNobodyWorksOnOrPlansAreAnAlarm(t *testing.T) {
	for want, counted := range map[string]observe.ShardsCounted{
		"PawlShardsUnowned":   {Name: "a", Unowned: 1},
		"PawlShardsUnplanned": {Name: "a", Unplanned: 61 * time.Second},
	} {
		all := scraped(t, prom.Options{}, 15*time.Minute, func(c *prom.Collector) {
			leads(c)
			c.Observe(context.Background(), observe.CampaignEnqueued{Acquisition: anAcquisition("candidates always wait"), Ahead: 1})
			c.Observe(context.Background(), observe.ShardsCounted{Name: "a"})
			time.Sleep(5*time.Minute + interval/2)
			c.Observe(context.Background(), counted)
			time.Sleep(5 * time.Minute)
			c.Observe(context.Background(), observe.ShardsCounted{Name: "a"})
		})
		s, engine, rules := stored(t, all), anEngine(t), shipped(t)
		assert.Empty(t, firing(t, engine, s, rules, 5*time.Minute))
		assert.Equal(t, []string{want}, firing(t, engine, s, rules, 8*time.Minute))
		assert.Empty(t, firing(t, engine, s, rules, 14*time.Minute))
	}
}

// A wait is an alarm after ten minutes.
func TestALongWaitIsAnAlarm(t *testing.T) {
	all := scraped(t, prom.Options{}, 15*time.Minute, func(c *prom.Collector) {
		leads(c)
		c.Observe(context.Background(), observe.LockEnqueued{Acquisition: observe.Acquisition{ID: 7, Name: "a"}, Ahead: 1})
	})
	s, engine, rules := stored(t, all), anEngine(t), shipped(t)
	assert.Empty(t, firing(t, engine, s, rules, 10*time.Minute))
	assert.Equal(t, []string{"PawlWaitsLong"}, firing(t, engine, s, rules, 10*time.Minute+2*interval))
}

// The alert that nobody leads also fires if nobody ever led, whichever candidates wait, and if
// no program runs at all.
func TestThatNobodyEverLedIsAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		opts prom.Options
		f    func(c *prom.Collector)
	}{
		"nothing is known": {f: func(*prom.Collector) {}},
		"a candidate waits": {f: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.CampaignEnqueued{Acquisition: anAcquisition("e")})
		}},
		"a candidate has a name": {opts: prom.Options{Name: strings.ToLower}, f: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.CampaignEnqueued{Acquisition: anAcquisition("e")})
		}},
		"a campaign was given up": {f: func(c *prom.Collector) {
			c.Observe(context.Background(), observe.CampaignGaveUp{Acquisition: anAcquisition("e")})
		}},
	} {
		all := scraped(t, c.opts, 5*time.Minute, c.f)
		assert.Equal(t, []string{"PawlNobodyLeads"}, firing(t, anEngine(t), stored(t, all), shipped(t), 5*time.Minute), name)
	}
	assert.Equal(t, []string{"PawlNobodyLeads"}, firing(t, anEngine(t), stored(t, nil), shipped(t), 5*time.Minute), "no program runs")
}

// Each query of the dashboard is understood by the engine, and shows something once
// something of each kind has happened.
func TestEachQueryOfTheDashboardShowsSomething(t *testing.T) {
	all := scraped(t, prom.Options{}, 5*time.Minute, func(c *prom.Collector) {
		for range 18 {
			everything(c)
			time.Sleep(interval)
		}
	})
	s, engine := stored(t, all), anEngine(t)
	queries := dashboard(t)
	require.Greater(t, len(queries), 20)
	for _, q := range queries {
		v := vector(t, engine, s, q, 4*time.Minute)
		if assert.NotEmpty(t, v, q) {
			assert.False(t, v[0].F != v[0].F, "%s is not a number", q)
		}
	}
}

// The first loss is on the dashboard: as one, and at its moment.
func TestTheDashboardShowsTheFirstLoss(t *testing.T) {
	all := scraped(t, prom.Options{}, 5*time.Minute, func(c *prom.Collector) {
		time.Sleep(2*time.Minute + interval/2)
		lost(lease.ErrExpired)(c)
	})
	s, engine := stored(t, all), anEngine(t)
	shown := 0
	for _, q := range dashboard(t) {
		if strings.Contains(q, "pawl_lost_total") {
			shown++
			total := 0.0
			for _, v := range vector(t, engine, s, q, 2*time.Minute+2*interval) {
				total += v.F
			}
			assert.GreaterOrEqual(t, total, 1.0, q)
		}
	}
	assert.GreaterOrEqual(t, shown, 3)
}

// The page for operators has the same expressions.
func TestTheDocumentationShowsTheAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/observability.md")
	require.NoError(t, err)
	for _, r := range shipped(t) {
		assert.True(t, strings.Contains(string(page), "`"+r.Alert+"`"), r.Alert)
		assert.NotEmpty(t, r.Labels["severity"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.NotEmpty(t, r.Annotations["description"], r.Alert)
	}
}

func anEngine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
}

func parse(file string) (*rulefmt.RuleGroups, []error) {
	return rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
}

// dashboard are the queries that the dashboard makes, with its variables filled in.
func dashboard(t *testing.T) []string { return queriesOf(t, "../../observe/prom/dashboard.json") }

// queriesOf are those of a dashboard's file.
func queriesOf(t *testing.T, file string) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var whole any
	require.NoError(t, json.Unmarshal(text, &whole))
	fill := strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "1m", "$__range", "5m")
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if expr, ok := v["expr"].(string); ok {
				queries = append(queries, fill.Replace(expr))
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(whole)
	return queries
}

// everything sends c an event of each kind.
func everything(c *prom.Collector) {
	left := func() time.Duration { return time.Second }
	for _, ev := range []observe.Event{
		observe.SessionGranted{Lease: 1, Left: left}, observe.SessionRenewed{Member: "m", RoundTrip: time.Millisecond},
		observe.SessionHedged{Slow: "m"}, observe.SessionInJeopardy{}, observe.SessionLost{Lease: 2, Err: lease.ErrExpired},
		observe.LockEnqueued{Acquisition: anAcquisition("a"), Ahead: 1}, observe.LockAcquired{Acquisition: anAcquisition("a"), Wait: time.Second},
		observe.LockGaveUp{Acquisition: anAcquisition("a"), Err: lease.ErrExpired}, observe.LockAcquired{Acquisition: anAcquisition("a")},
		observe.LockReleased{Acquisition: anAcquisition("a"), Held: time.Second, Pending: lease.ErrExpired},
		observe.LockAcquired{Acquisition: anAcquisition("a")}, observe.LockLost{Acquisition: anAcquisition("a"), Err: lease.ErrExpired},
		observe.TermElected{Acquisition: anAcquisition("e")}, observe.TermProclaimed{Acquisition: anAcquisition("e")},
		observe.LockEnqueued{Acquisition: observe.Acquisition{ID: 9, Name: "b"}, Ahead: 2},
		observe.MemberSwitched{From: "m"}, observe.WriteFenced{}, observe.JobRan{Name: "j"},
		observe.ShardHeld{Shard: observe.Shard{Name: "s"}}, observe.ShardHeld{Shard: observe.Shard{Name: "s"}},
		observe.ShardEnded{Shard: observe.Shard{Name: "s"}, Why: observe.ShardMoved, Took: time.Second},
		observe.ShardsCounted{Name: "s", Unowned: 1, Unplanned: time.Second, Load: 3, Unmeasured: 1},
	} {
		c.Observe(context.Background(), ev)
	}
}
