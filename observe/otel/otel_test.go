package otel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/metricspage"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/observe/otel"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// fixture is an Observer, what it made, and a client of a cluster in a bubble.
type fixture struct {
	*testing.T
	o       *otel.Observer
	spans   *tracetest.SpanRecorder
	traces  *trace.TracerProvider
	reader  *metric.ManualReader
	cluster *pawltest.Cluster
	client  *pawl.Client
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{T: t, spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	w.traces = trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))
	var err error
	w.o, err = otel.New(otel.Options{TracerProvider: w.traces, MeterProvider: metric.NewMeterProvider(metric.WithReader(w.reader))})
	require.NoError(t, err)
	return w
}

func inBubble(t *testing.T, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.cluster = pawltest.New(t)
		w.client = w.cluster.Client(t, pawl.Config{Observer: w.o})
		f(w)
	})
}

func (w *fixture) session(ttl time.Duration) *pawl.Session {
	w.Helper()
	s, err := w.client.NewSession(w.Context(), lease.Options{TTL: ttl})
	require.NoError(w, err)
	synctest.Wait()
	return s
}

// ended are the spans that have ended, by name, the last of each.
func (w *fixture) ended() map[string]trace.ReadOnlySpan {
	synctest.Wait()
	all := map[string]trace.ReadOnlySpan{}
	for _, s := range w.spans.Ended() {
		all[s.Name()] = s
	}
	return all
}

func attributes(s trace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func events(s trace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

// points are the metrics: "name{attributes}" and a sum, or a histogram's count and sum.
func (w *fixture) points() map[string]string {
	w.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(w, w.reader.Collect(context.Background(), &data))
	all := map[string]string{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					all[m.Name+set(p.Attributes)] = fmt.Sprint(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					all[m.Name+set(p.Attributes)] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					all[m.Name+set(p.Attributes)] = fmt.Sprint(p.Count, " ", p.Sum)
				}
			default:
				w.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return all
}

func set(s attribute.Set) string {
	if s.Len() == 0 {
		return ""
	}
	return "{" + strings.ReplaceAll(s.Encoded(attribute.DefaultEncoder()), "pawl.", "") + "}"
}

func (w *fixture) shows(want map[string]string) {
	w.Helper()
	synctest.Wait() // a release's answer comes after its handoff
	got := w.points()
	for name, value := range want {
		assert.Equal(w, value, got[name], "%s of %v", name, got)
	}
}

func TestWaitAndHoldAreSpansOfTheCallersTrace(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session(0)
		m := lock.New(s, "n", lock.Options{})
		first, err := m.Acquire(w.Context())
		require.NoError(w, err)
		time.AfterFunc(3*time.Second, func() { assert.NoError(w, first.Release(context.Background())) })

		ctx, root := w.traces.Tracer("test").Start(w.Context(), "job")
		h, err := m.Acquire(ctx)
		require.NoError(w, err)
		w.shows(map[string]string{"pawl.held{kind=lock,mode=exclusive}": "1", "pawl.waiting{kind=lock,mode=exclusive}": "0"})
		time.Sleep(2 * time.Second)
		require.NoError(w, h.Release(ctx))
		root.End()

		ended := w.ended()
		wait, hold := ended["pawl.acquire"], ended["pawl.hold"]
		for _, span := range []trace.ReadOnlySpan{wait, hold} {
			assert.Equal(w, root.SpanContext().SpanID(), span.Parent().SpanID())
			as := attributes(span)
			assert.Equal(w, "n", as["pawl.name"])
			assert.Equal(w, h.Key(), as["pawl.key"])
			assert.EqualValues(w, h.Token(), as["pawl.token"])
			assert.Equal(w, fmt.Sprintf("%x", s.ID()), as["pawl.lease"])
			assert.Contains(w, []any{"confirmed", "granted"}, as["pawl.how"])
			assert.Equal(w, codes.Unset, span.Status().Code)
		}
		assert.Equal(w, 3*time.Second, wait.EndTime().Sub(wait.StartTime()))
		assert.Equal(w, 2*time.Second, hold.EndTime().Sub(hold.StartTime()))
		w.shows(map[string]string{
			"pawl.held{kind=lock,mode=exclusive}":                   "0",
			"pawl.hold.duration{kind=lock,mode=exclusive}":          "2 5",
			"pawl.wait.duration{how=free,kind=lock,mode=exclusive}": "1 0",
		})
	})
}

func TestModeAndNamesAreAttributes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session(15 * time.Second)
		reader, err := lock.New(s, "docs", lock.Options{}).AcquireShared(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		w.shows(map[string]string{"pawl.held{kind=lock,mode=shared}": "1"})
		require.NoError(w, reader.Release(w.Context()))
		assert.Equal(w, "shared", attributes(w.ended()["pawl.hold"])["pawl.mode"])
		assert.NotContains(w, attributes(w.ended()["pawl.hold"]), "pawl.names")
		w.shows(map[string]string{"pawl.held{kind=lock,mode=shared}": "0"})

		set, err := lock.NewMulti(s, lock.Options{}, lock.Exclusive("a"), lock.Shared("b")).Acquire(w.Context())
		require.NoError(w, err)
		require.NoError(w, set.Release(w.Context()))
		of := attributes(w.ended()["pawl.hold"])
		assert.Equal(w, []any{"a", []string{"a", "b"}, "exclusive"}, []any{of["pawl.name"], of["pawl.names"], of["pawl.mode"]})
		assert.NotContains(w, of, "pawl.slot")

		gpus := lock.NewSemaphore(s, "gpus", 2, lock.Options{})
		first, err := gpus.Acquire(w.Context())
		require.NoError(w, err)
		second, err := gpus.Acquire(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		w.shows(map[string]string{"pawl.held{kind=lock,mode=semaphore}": "2", "pawl.waiting{kind=lock,mode=semaphore}": "0"})
		require.NoError(w, second.Release(w.Context()))
		of = attributes(w.ended()["pawl.hold"])
		assert.Equal(w, []any{"gpus", "semaphore", int64(1), second.Key()}, []any{of["pawl.name"], of["pawl.mode"], of["pawl.slot"], of["pawl.key"]})
		require.NoError(w, first.Release(w.Context()))
		synctest.Wait()
		w.shows(map[string]string{"pawl.held{kind=lock,mode=semaphore}": "0"})
	})
}

func TestALossIsAnErrorOfTheHoldsSpan(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h, err := lock.New(w.session(12*time.Second), "n", lock.Options{}).Acquire(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		w.cluster.Cut()
		time.Sleep(11 * time.Second)
		require.ErrorIs(w, h.Err(), lease.ErrExpired)
		w.cluster.Heal()
		hold := w.ended()["pawl.hold"]
		assert.Equal(w, codes.Error, hold.Status().Code)
		assert.Contains(w, hold.Status().Description, "expired")
		assert.Equal(w, "expired", attributes(hold)["pawl.cause"])
		assert.Equal(w, []string{"session in jeopardy", "exception"}, events(hold))
		w.shows(map[string]string{
			"pawl.lost{cause=expired,kind=lock,mode=exclusive}": "1", "pawl.sessions": "0",
			"pawl.sessions.in_jeopardy": "1", "pawl.sessions.over{cause=expired}": "1",
		})
	})
}

func TestAnAcquisitionThatFailsIsAnErrorUnlessItWasBusy(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := lock.New(w.session(0), "n", lock.Options{})
		h, err := m.Acquire(w.Context())
		require.NoError(w, err)
		_, err = m.TryAcquire(w.Context())
		require.ErrorIs(w, err, lock.ErrBusy)
		busy := w.ended()["pawl.acquire"]
		assert.Equal(w, codes.Unset, busy.Status().Code)
		assert.Equal(w, "busy", attributes(busy)["pawl.cause"])

		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = m.Acquire(ctx)
		require.Error(w, err)
		late := w.ended()["pawl.acquire"]
		assert.Equal(w, codes.Error, late.Status().Code)
		assert.Equal(w, time.Second, late.EndTime().Sub(late.StartTime()))
		w.shows(map[string]string{
			"pawl.gave_up{cause=busy,kind=lock,mode=exclusive}": "1", "pawl.gave_up{cause=timeout,kind=lock,mode=exclusive}": "1", "pawl.waiting{kind=lock,mode=exclusive}": "0",
		})
		require.NoError(w, h.Release(w.Context()))
	})
}

func TestATermIsASpanWithItsProclamations(t *testing.T) {
	inBubble(t, func(w *fixture) {
		term, err := elect.New(w.session(0), "e", elect.Options{}).Campaign(w.Context(), nil)
		require.NoError(w, err)
		require.NoError(w, term.Proclaim(w.Context(), []byte("v")))
		require.NoError(w, term.Resign(w.Context()))
		require.Error(w, term.Proclaim(w.Context(), nil))
		ended := w.ended()
		require.Contains(w, ended, "pawl.campaign")
		assert.Equal(w, []string{"proclaimed"}, events(ended["pawl.term"]))
		assert.Equal(w, codes.Unset, ended["pawl.term"].Status().Code)
		w.shows(map[string]string{"pawl.held{kind=election,mode=exclusive}": "0"})
	})
}

func TestValidityIsReadWhenItIsCollected(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.session(60 * time.Second)
		w.session(12 * time.Second)
		time.Sleep(2 * time.Second)
		w.shows(map[string]string{"pawl.session.validity": "8", "pawl.sessions": "2"})
		require.NoError(w, w.client.Close())
		assert.NotContains(w, w.points(), "pawl.session.validity")
		w.shows(map[string]string{"pawl.sessions": "0", "pawl.sessions.over{cause=closed}": "2"})
	})
}

func TestAFencedWriteIsAnEventOfTheCallersSpan(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h, err := lock.New(w.session(0), "n", lock.Options{}).Acquire(w.Context())
		require.NoError(w, err)
		w.cluster.Delete(h.Key())
		ctx, root := w.traces.Tracer("test").Start(w.Context(), "job")
		_, err = w.client.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("k", nil)}})
		require.ErrorIs(w, err, kv.ErrFenced)
		root.End()
		assert.Equal(w, []string{"write fenced"}, events(w.ended()["job"]))
		w.shows(map[string]string{"pawl.fenced": "1"})
	})
}

func TestTheTimeWithoutProgressIsShown(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h, err := lock.New(w.session(0), "n", lock.Options{Stall: 20 * time.Second}).Acquire(w.Context())
		require.NoError(w, err)
		time.Sleep(5 * time.Second)
		w.shows(map[string]string{"pawl.progress.age": "5"})
		require.NoError(w, h.Progress())
		w.shows(map[string]string{"pawl.progress.age": "0"})
		<-h.Done()
		w.shows(map[string]string{"pawl.progress.age": "", "pawl.lost{cause=stalled,kind=lock,mode=exclusive}": "1"})
	})
	w := newFixture(t)
	of := observe.Acquisition{ID: 7}
	w.o.Observe(w.Context(), observe.Progressed{Acquisition: of, Stall: time.Second}) // of which nothing is known
	assert.NotContains(w, w.points(), "pawl.progress.age")
	w.o.Observe(w.Context(), observe.TermElected{Acquisition: of})
	w.o.Observe(w.Context(), observe.Progressed{Acquisition: of, Election: true, Stall: time.Second})
	assert.Contains(w, w.points(), "pawl.progress.age")
	w.o.Observe(w.Context(), observe.Progressed{Acquisition: of, Election: true})
	assert.NotContains(w, w.points(), "pawl.progress.age", "no work runs")
}

func TestAReleaseThatIsPendingIsAnEvent(t *testing.T) {
	w := newFixture(t)
	c := observe.Acquisition{ID: 7, Name: "n"}
	w.o.Observe(w.Context(), observe.LockAcquired{Acquisition: c})
	w.o.Observe(w.Context(), observe.LockReleased{Acquisition: c, Pending: errors.New("no answer")})
	w.o.Observe(w.Context(), observe.LockReleased{Acquisition: observe.Acquisition{ID: 8}}) // of which nothing is known
	spans := w.spans.Ended()
	require.Len(w, spans, 2)
	assert.Equal(w, []string{"release pending"}, events(spans[1]))
}

// everything is an event of each kind that a metric counts.
var everything = []observe.Event{
	observe.SessionGranted{Left: func() time.Duration { return time.Second }}, observe.SessionRenewed{}, observe.SessionHedged{},
	observe.SessionInJeopardy{}, observe.SessionLost{Lease: 1}, observe.Reclaimed{}, observe.LockEnqueued{}, observe.LockAcquired{},
	observe.LockLost{Err: lease.ErrExpired}, observe.LockGaveUp{Err: lease.ErrExpired},
	observe.LockAcquired{Acquisition: observe.Acquisition{ID: 3}}, observe.Progressed{Acquisition: observe.Acquisition{ID: 3}, Stall: time.Second},
	observe.MemberSwitched{}, observe.MemberServes{}, observe.WriteFenced{Err: kv.ErrFenced}, observe.JobRan{},
	observe.ShardHeld{}, observe.ShardEnded{Why: observe.ShardMoved, Took: time.Second}, observe.ShardsCounted{}, observe.ShardsPlanned{},
}

func TestTheDocumentationListsEachMetric(t *testing.T) {
	w := newFixture(t)
	for _, ev := range everything {
		w.o.Observe(w.Context(), ev)
	}
	var made, listed []string
	for name := range w.points() {
		name, _, _ = strings.Cut(name, "{")
		made = append(made, name)
	}
	text, err := os.ReadFile("doc.go")
	require.NoError(w, err)
	for _, m := range regexp.MustCompile(`(?m)^//\t(pawl\.[\w.]+) +(?:s +)?(?:histogram|counter|up-down|gauge)`).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	assert.ElementsMatch(w, made, listed)
}

// The page of metrics has a row for each metric, and no other row.
func TestTheReferenceHasTheRowsOfAllMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	rows, inProm := metricspage.Rows(string(page), "pawl."), metricspage.Rows(string(page), "pawl_")
	w := newFixture(t)
	for _, ev := range everything {
		w.o.Observe(w.Context(), ev)
	}
	var data metricdata.ResourceMetrics
	require.NoError(t, w.reader.Collect(w.Context(), &data))
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			row, ok := rows[m.Name]
			if !assert.True(t, ok, "%s has no row", m.Name) {
				continue
			}
			kind, labels := kindAndLabels(m.Data)
			assert.Equal(t, kind, row.Type, m.Name)
			assert.Equal(t, m.Unit, row.Unit, m.Name)
			assert.ElementsMatch(t, labels, row.Labels, m.Name)
			if assert.Len(t, row.Last, 1, m.Name) {
				assert.Contains(t, inProm, row.Last[0], m.Name)
			}
			delete(rows, m.Name)
		}
	}
	assert.Empty(t, rows, "rows without a metric")
}

func kindAndLabels(data metricdata.Aggregation) (kind string, labels []string) {
	var s attribute.Set
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		kind, s = "up-down counter", d.DataPoints[0].Attributes
		if d.IsMonotonic {
			kind = "counter"
		}
	case metricdata.Gauge[float64]:
		kind, s = "gauge", d.DataPoints[0].Attributes
	case metricdata.Histogram[float64]:
		kind, s = "histogram", d.DataPoints[0].Attributes
	}
	for _, a := range s.ToSlice() {
		labels = append(labels, string(a.Key))
	}
	return kind, labels
}

func TestANameThatIsNotUTF8IsAnAttributeThatIs(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h, err := lock.New(w.session(0), "n\xff", lock.Options{}).Acquire(w.Context())
		require.NoError(w, err)
		require.NoError(w, h.Release(w.Context()))
		assert.Equal(w, "n\uFFFD", attributes(w.ended()["pawl.hold"])["pawl.name"])
	})
}
