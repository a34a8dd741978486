package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a cluster in memory and a page of it, in a bubble.
type fixture struct {
	*inmemory.Fixture
	page *Page
}

func inBubble(t *testing.T, o Options, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{Fixture: inmemory.New(t, etcdfake.Options{})}
		w.Namespace, o.Namespace = "app/", "app/"
		p, err := Open(t.Context(), w.Client(), o)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		w.page = p
		f(w)
	})
}

// Holds acquires name.
func (w *fixture) Holds(s *pawl.Session, name string) *lock.Held {
	w.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
	require.NoError(w, err)
	return h
}

// waits enqueues where others hold.
func (w *fixture) waits(s *pawl.Session, name string) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	go func() { _, _ = lock.New(s, name, lock.Options{}).Acquire(ctx) }() // ends with the test
	synctest.Wait()
}

// settled is the state once every change is published.
func (w *fixture) settled() snapshot {
	w.Helper()
	require.True(w, backoff.Sleep(w.Context(), 2*pace))
	synctest.Wait()
	return w.page.hub.state()
}

func (w *fixture) requests(method, target, body string, header ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:7295"
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	out := httptest.NewRecorder()
	w.page.ServeHTTP(out, r)
	return out
}

// A wire is a stream's other end.
type wire struct {
	*bufio.Scanner
	header http.Header
	code   int
	pipe   *io.PipeWriter
	hangUp context.CancelFunc
	ended  chan struct{} // closed when the handler has returned
}

func (w *wire) Header() http.Header         { return w.header }
func (w *wire) WriteHeader(code int)        { w.code = code }
func (w *wire) Write(b []byte) (int, error) { return w.pipe.Write(b) }
func (w *wire) FlushError() error           { return nil }

// stream follows, starting after the message last.
func (w *fixture) stream(last string) *wire {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	in, out := io.Pipe()
	s := &wire{bufio.NewScanner(in), http.Header{}, 200, out, cancel, make(chan struct{})}
	s.Buffer(nil, 1<<24)
	r := httptest.NewRequestWithContext(ctx, "GET", "/api/events?last="+last, nil)
	r.Host = "localhost"
	go func() { // ends when the stream does
		defer close(s.ended)
		w.page.ServeHTTP(s, r)
		_ = out.Close()
	}()
	w.Cleanup(func() {
		cancel()
		_ = in.Close()
		<-s.ended
	})
	return s
}

// next is the next message of the stream, without pings. It returns "" once the stream has ended.
func (w *wire) next(t *fixture) (id, event, data string) {
	t.Helper()
	for w.Scan() {
		key, value, _ := strings.Cut(w.Text(), ": ")
		switch {
		case key == "id":
			id = value
		case key == "event":
			event = value
		case key == "data":
			data = value
		case event == "ping":
			id, event, data = "", "", ""
		default:
			return id, event, data
		}
	}
	return "", "", ""
}

func (w *wire) change(t *fixture) (id string, c change) {
	t.Helper()
	id, event, data := w.next(t)
	require.Equal(t, "change", event)
	require.NoError(t, json.Unmarshal([]byte(data), &c))
	return id, c
}

func TestTheStateHasQueuesAndHolds(t *testing.T) {
	inBubble(t, Options{Cluster: "here"}, func(w *fixture) {
		ann, bob := w.Session("ann"), w.Session("bob")
		h := w.Holds(ann, "reports/daily")
		w.waits(bob, "reports/daily")
		_, err := elect.New(bob, "chief", elect.Options{}).Campaign(w.Context(), []byte("desk\xff"))
		require.NoError(w, err)
		w.Cluster.Put("app/old/readme", "", 0)
		w.Cluster.Put("app/old/1f-1", `{"pawl":"lock"`, 0)

		s := w.settled()
		require.Len(w, s.Queues, 3)
		assert.Equal(w, []string{"chief", "old", "reports/daily"}, []string{s.Queues[0].Name, s.Queues[1].Name, s.Queues[2].Name})
		assert.Equal(w, "election", s.Queues[0].Kind)
		assert.Equal(w, "desk\uFFFD", s.Queues[0].Positions[0].Value)
		assert.Equal(w, "foreign", s.Queues[1].Positions[0].Form)
		daily := s.Queues[2]
		assert.Equal(w, 1, daily.Waiting)
		assert.Equal(w, "app//reports%2Fdaily/", daily.Prefix)
		assert.Equal(w, h.Token(), daily.Positions[0].Token)
		assert.Equal(w, "bob", daily.Positions[1].Owner)
		require.Len(w, s.Holds, 2)
		assert.Equal(w, daily.ID, s.Holds[0].Queue)
		assert.Zero(w, s.Holds[0].To)
		assert.False(w, s.Holds[0].Early)

		require.NoError(w, h.Release(w.Context()))
		w.Cluster.Revoke(bob.ID())
		s = w.settled()
		require.Len(w, s.Queues, 1, "one is foreign")
		var ends []string
		for _, h := range s.Holds {
			ends = append(ends, h.Owner+" "+h.End)
		}
		assert.Equal(w, []string{"ann released", "bob lost", "bob lost"}, ends)

		var got snapshot
		require.NoError(w, json.Unmarshal(w.requests("GET", "/api/state", "").Body.Bytes(), &got))
		assert.Equal(w, s.Holds, got.Holds)
		assert.Equal(w, "here", got.Cluster)
		assert.False(w, got.Breakable)
	})
}

// What Every and Once record is in the state, and what changes is published while somebody looks.
func TestTheStateHasSchedules(t *testing.T) {
	inBubble(t, Options{Prefix: "jobs/"}, func(w *fixture) {
		began := time.Now()
		ctx, end := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { // ends with ctx
			defer close(ended)
			_ = lock.New(w.Session("ann"), "jobs/hourly", lock.Options{}).Every(ctx, lock.Interval(time.Hour, 0), func(context.Context, *lock.Held, time.Time) error { return nil }, lock.EveryOptions{})
		}()
		w.Cluster.Put("app///pawl/once//jobs%2Fbroken", "yesterday", 0)
		w.Cluster.Put("app///pawl/once/other", began.UTC().Format(time.RFC3339), 0)
		stream := w.stream("")
		_, event, _ := stream.next(w)
		require.Equal(w, "state", event)
		next := func() (got []scheduleView) {
			for {
				_, event, data := stream.next(w)
				require.NotEmpty(w, event)
				if event == "schedules" {
					require.NoError(w, json.Unmarshal([]byte(data), &got))
					return got
				}
			}
		}
		hour := began.Truncate(time.Hour).Add(time.Hour)
		id := idOf("app//jobs%2Fhourly/")
		assert.Equal(w, []scheduleView{{id, "jobs/hourly", began.UnixMilli(), hour.UnixMilli(), true}}, next())
		assert.Equal(w, []scheduleView{{id, "jobs/hourly", hour.UnixMilli(), hour.Add(time.Hour).UnixMilli(), false}}, next())
		assert.Equal(w, w.page.hub.schedules, w.page.hub.state().Schedules)
		end()
		<-ended
	})
}

func TestLeasesShowWhatIsLeft(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		w.Holds(w.Session("ann"), "a")
		id := w.settled().Queues[0].ID
		got := w.requests("GET", "/api/leases?queue="+id, "")
		assert.Equal(w, 200, got.Code)
		assert.Contains(w, got.Body.String(), `"ttl":15`)
		assert.Equal(w, 404, w.requests("GET", "/api/leases?queue="+idOf("app/b/"), "").Code)
		assert.Equal(w, 404, w.requests("GET", "/api/leases?queue=%25", "").Code)
		w.Cluster.BlackHole()
		assert.Equal(w, 502, w.requests("GET", "/api/leases?queue="+id, "").Code)
		w.Cluster.Heal()
	})
}

func TestFollowingThatEndsBeginsAgainAndIsReportedMeanwhile(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		ann := w.Session("ann")
		w.Holds(ann, "a")
		w.settled()
		c := w.Client()
		f, err := inspect.Follow(w.Context(), c, inspect.Scope{})
		require.NoError(w, err)
		p := &Page{client: c, opts: w.page.opts, hub: newHub(Options{})}
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { // ends with ctx
			defer close(ended)
			p.keepFollowing(ctx, f)
		}()
		synctest.Wait()
		require.NoError(w, lock.New(ann, "b", lock.Options{}).Do(w.Context(), func(context.Context, *lock.Held) error {
			f.Close()
			synctest.Wait()
			backoff.Sleep(ctx, pace)
			synctest.Wait()
			assert.Contains(w, p.hub.state().Failure, "closed")
			return nil
		}))
		backoff.Sleep(ctx, 2*minPause)
		synctest.Wait()
		s := p.hub.state()
		assert.Empty(w, s.Failure)
		require.Len(w, s.Queues, 1)
		assert.Equal(w, "a", s.Queues[0].Name)
		require.NoError(w, c.Close())
		synctest.Wait()
		backoff.Sleep(ctx, 10*maxPause)
		assert.NotEmpty(w, p.hub.state().Failure, "and as long as it fails")
		cancel()
		<-ended
	})
}

func TestASilentClusterIsReportedWhileSomebodyWatches(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		s := w.stream("")
		_, event, _ := s.next(w)
		require.Equal(w, "state", event)
		w.Cluster.BlackHole()
		_, event, data := s.next(w)
		assert.Equal(w, "failure", event)
		assert.Contains(w, data, "the cluster does not answer")
		since := w.page.hub.state().Since
		assert.InDelta(w, time.Now().UnixMilli(), since, float64(probeEvery.Milliseconds()), "since it was queried")
		require.True(w, backoff.Sleep(w.Context(), time.Minute))
		assert.Equal(w, since, w.page.hub.state().Since, "it goes on since then")
		w.Cluster.Heal()
		_, event, data = s.next(w)
		assert.Equal(w, "failure", event)
		assert.Equal(w, `{"failure":"","since":0}`, data)
	})
}
