package prom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/observe/prom"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// shows asserts that c shows exactly these lines for the metrics that they name,
// but for what comments and buckets say, and for series at 0.
func shows(t *testing.T, c *prom.Collector, lines ...string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	text, err := testutil.GatherAndFormat(r, expfmt.TypeTextPlain, names(lines)...)
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		begun := strings.HasSuffix(line, " 0") && !slices.Contains(lines, line) // not counted yet
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") && !begun {
			got = append(got, line)
		}
	}
	assert.ElementsMatch(t, lines, got)
}

// everySeries is all that c shows.
func everySeries(t *testing.T, c *prom.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	text, err := testutil.GatherAndFormat(r, expfmt.TypeTextPlain)
	require.NoError(t, err)
	return string(text)
}

// names are the metrics of lines.
func names(lines []string) (names []string) {
	for _, l := range lines {
		name := l[:strings.IndexAny(l, "{ ")]
		for _, part := range []string{"_count", "_sum"} {
			name = strings.TrimSuffix(name, part)
		}
		names = append(names, name)
	}
	return names
}

// inBubble runs f with a cluster and a client of it, observed by a Collector.
func inBubble(t *testing.T, opts prom.Options, f func(t *testing.T, c *prom.Collector, cluster *pawltest.Cluster, client *pawl.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := prom.New(opts)
		cluster := pawltest.New(t)
		f(t, c, cluster, cluster.Client(t, pawl.Config{Observer: c}))
	})
}

func sessionOf(t *testing.T, client *pawl.Client) *pawl.Session {
	t.Helper()
	s, err := client.Session(t.Context())
	require.NoError(t, err)
	synctest.Wait()
	return s
}

func TestReadersAndWritersAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prom.New(prom.Options{})
		client := pawltest.New(t).Client(t, pawl.Config{Observer: c})
		m := lock.New(client, "docs", lock.Options{})
		var readers []*lock.Held
		for range 2 {
			h, err := m.AcquireShared(t.Context())
			require.NoError(t, err)
			readers = append(readers, h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			_, err := m.Acquire(ctx)
			assert.Error(t, err)
		}()
		synctest.Wait()
		shows(t, c, `pawl_held{kind="lock",mode="shared"} 2`, `pawl_held{kind="lock",mode="exclusive"} 0`,
			`pawl_waiting{kind="lock",mode="exclusive"} 1`, `pawl_lost_total{cause="expired",kind="lock",mode="shared"} 0`)
		cancel()
		<-done
		for _, h := range readers {
			require.NoError(t, h.Release(t.Context()))
		}
		synctest.Wait()
		shows(t, c, `pawl_held{kind="lock",mode="shared"} 0`)
	})
}

func TestPermitsAreCountedApart(t *testing.T) {
	inBubble(t, prom.Options{}, func(t *testing.T, c *prom.Collector, cluster *pawltest.Cluster, client *pawl.Client) {
		m := lock.NewSemaphore(sessionOf(t, client), "gpus", 2, lock.Options{})
		first, err := m.Acquire(t.Context())
		require.NoError(t, err)
		second, err := m.Acquire(t.Context())
		require.NoError(t, err)
		_, err = m.TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrBusy)
		shows(t, c, `pawl_held{kind="lock",mode="semaphore"} 2`,
			`pawl_gave_up_total{cause="busy",kind="lock",mode="semaphore"} 1`, `pawl_lost_total{cause="key_deleted",kind="lock",mode="semaphore"} 0`)
		time.Sleep(time.Second)
		cluster.Delete(first.Key())
		<-first.Done()
		require.NoError(t, second.Release(t.Context()))
		synctest.Wait()
		shows(t, c, `pawl_held{kind="lock",mode="semaphore"} 0`, `pawl_lost_total{cause="key_deleted",kind="lock",mode="semaphore"} 1`,
			`pawl_hold_seconds_count{kind="lock",mode="semaphore"} 2`, `pawl_hold_seconds_sum{kind="lock",mode="semaphore"} 2`)
	})
}

func TestTheLifeOfALock(t *testing.T) {
	inBubble(t, prom.Options{}, func(t *testing.T, c *prom.Collector, cluster *pawltest.Cluster, client *pawl.Client) {
		m := lock.New(sessionOf(t, client), "n", lock.Options{})
		h, err := m.Acquire(t.Context())
		require.NoError(t, err)
		shows(t, c, `pawl_held{kind="lock",mode="exclusive"} 1`, `pawl_wait_seconds_count{how="free",kind="lock",mode="exclusive"} 1`, `pawl_wait_seconds_sum{how="free",kind="lock",mode="exclusive"} 0`)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		gaveUp := make(chan error)
		go func() {
			_, err := m.Acquire(ctx)
			gaveUp <- err
		}()
		time.Sleep(2 * time.Second)
		shows(t, c, `pawl_waiting{kind="lock",mode="exclusive"} 1`, `pawl_oldest_wait_seconds{kind="lock",mode="exclusive"} 2`,
			`pawl_queue_ahead_count{kind="lock",mode="exclusive"} 2`, `pawl_queue_ahead_sum{kind="lock",mode="exclusive"} 1`)
		require.Error(t, <-gaveUp)
		shows(t, c, `pawl_gave_up_total{cause="timeout",kind="lock",mode="exclusive"} 1`)
		_, err = m.TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrBusy)
		require.NoError(t, h.Release(t.Context()))
		h, err = m.Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second) // its key is watched by now
		cluster.Delete(h.Key())
		synctest.Wait()
		shows(t, c,
			`pawl_gave_up_total{cause="timeout",kind="lock",mode="exclusive"} 1`, `pawl_gave_up_total{cause="busy",kind="lock",mode="exclusive"} 1`,
			`pawl_held{kind="lock",mode="exclusive"} 0`, `pawl_lost_total{cause="key_deleted",kind="lock",mode="exclusive"} 1`,
			`pawl_hold_seconds_count{kind="lock",mode="exclusive"} 2`, `pawl_hold_seconds_sum{kind="lock",mode="exclusive"} 6`)
		assert.Zero(t, testutil.CollectAndCount(c, "pawl_waiting"))
	})
}

// The age is that of the hold without progress for longest, to a tenth of its Stall. It goes with the hold.
func TestTheTimeWithoutProgressIsShown(t *testing.T) {
	inBubble(t, prom.Options{}, func(t *testing.T, c *prom.Collector, _ *pawltest.Cluster, client *pawl.Client) {
		s := sessionOf(t, client)
		acquire := func(name string) *lock.Held {
			h, err := lock.New(s, name, lock.Options{Stall: 20 * time.Second}).Acquire(t.Context())
			require.NoError(t, err)
			return h
		}
		age := func(want string) {
			t.Helper()
			synctest.Wait()
			shows(t, c, `pawl_progress_age_seconds{kind="lock",mode="exclusive"} `+want)
		}
		plain, err := lock.New(s, "plain", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		assert.Zero(t, testutil.CollectAndCount(c, "pawl_progress_age_seconds"))
		a, b := acquire("a"), acquire("b")
		time.Sleep(5 * time.Second)
		age("5")
		require.NoError(t, a.Progress())
		age("5")
		require.NoError(t, b.Progress())
		age("0")
		time.Sleep(time.Second)
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		age("1") // a tenth of the Stall has not passed
		time.Sleep(time.Second)
		require.NoError(t, a.Progress())
		require.NoError(t, b.Release(t.Context()))
		age("0")
		<-a.Done()
		synctest.Wait()
		assert.Zero(t, testutil.CollectAndCount(c, "pawl_progress_age_seconds"))
		shows(t, c, `pawl_lost_total{cause="stalled",kind="lock",mode="exclusive"} 1`)
		require.NoError(t, plain.Release(t.Context()))
		_ = a.Progress() // after the end
		synctest.Wait()
		assert.Zero(t, testutil.CollectAndCount(c, "pawl_progress_age_seconds"))
	})
}

func TestTheLifeOfATerm(t *testing.T) {
	inBubble(t, prom.Options{Name: strings.ToUpper}, func(t *testing.T, c *prom.Collector, _ *pawltest.Cluster, client *pawl.Client) {
		term, err := elect.New(sessionOf(t, client), "e", elect.Options{}).Campaign(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, term.Proclaim(t.Context(), []byte("v")))
		shows(t, c, `pawl_held{kind="election",mode="exclusive",name="E"} 1`)
		time.Sleep(time.Second)
		require.NoError(t, term.Resign(t.Context()))
		require.Error(t, term.Proclaim(t.Context(), nil))
		shows(t, c, `pawl_held{kind="election",mode="exclusive",name="E"} 0`,
			`pawl_hold_seconds_count{kind="election",mode="exclusive",name="E"} 1`, `pawl_hold_seconds_sum{kind="election",mode="exclusive",name="E"} 1`,
			`pawl_proclaims_total{name="E",result="ok"} 1`, `pawl_proclaims_total{name="E",result="failed"} 1`)
	})
}

func TestValidityIsReadAtTheScrape(t *testing.T) {
	inBubble(t, prom.Options{}, func(t *testing.T, c *prom.Collector, cluster *pawltest.Cluster, client *pawl.Client) {
		s, err := client.NewSession(t.Context(), lease.Options{TTL: 12 * time.Second})
		require.NoError(t, err)
		synctest.Wait()
		validity := func(left string) string {
			return fmt.Sprintf(`pawl_session_validity_seconds{lease="%x"} %s`, s.ID(), left)
		}
		shows(t, c, `pawl_sessions 1`, validity("10"))
		time.Sleep(2 * time.Second)
		shows(t, c, validity("8"))
		time.Sleep(2 * time.Second) // renewed at 3 s
		shows(t, c, validity("9"), `pawl_sessions_in_jeopardy_total 0`)
		cluster.Cut()
		time.Sleep(5 * time.Second)
		shows(t, c, validity("4"), `pawl_sessions_in_jeopardy_total 1`)
		time.Sleep(4 * time.Second) // a scrape may be what finds it over
		assert.Zero(t, testutil.CollectAndCount(c, "pawl_session_validity_seconds"))
		synctest.Wait()
		shows(t, c, `pawl_sessions 0`, `pawl_sessions_granted_total 1`, `pawl_sessions_over_total{cause="expired"} 1`)
	})
}

func TestOnlySoManySessionsAreShownThoseWithTheLeastLeft(t *testing.T) {
	c := prom.New(prom.Options{Sessions: 2})
	for n := range int64(5) {
		c.Observe(t.Context(), observe.SessionGranted{Lease: n + 10, Left: func() time.Duration { return time.Duration(20-n) * time.Second }})
	}
	shows(t, c, `pawl_sessions 5`, `pawl_session_validity_seconds{lease="e"} 16`, `pawl_session_validity_seconds{lease="d"} 17`)
}

func TestRenewalsHedgesAndSwitchesAreByMember(t *testing.T) {
	c := prom.New(prom.Options{})
	c.Observe(t.Context(), observe.SessionRenewed{Member: "a:2379", RoundTrip: 250 * time.Millisecond})
	c.Observe(t.Context(), observe.SessionHedged{Slow: "b:2379", Member: "a:2379"})
	c.Observe(t.Context(), observe.MemberSwitched{From: "b:2379"})
	c.Observe(t.Context(), observe.MemberServes{Member: "b:2379"})
	shows(t, c, `pawl_renewal_seconds_count{member="a:2379"} 1`, `pawl_renewal_seconds_sum{member="a:2379"} 0.25`,
		`pawl_renewals_hedged_total{member="b:2379"} 1`, `pawl_member_switches_total{member="b:2379"} 1`)
}

func TestLeasesThatWereReclaimedAreCounted(t *testing.T) {
	c := prom.New(prom.Options{})
	shows(t, c, `pawl_leases_reclaimed_total 0`)
	c.Observe(t.Context(), observe.Reclaimed{Lease: 7, Owner: "ann", After: time.Millisecond})
	shows(t, c, `pawl_leases_reclaimed_total 1`)
}

func TestAReleaseThatIsPendingIsCounted(t *testing.T) {
	c := prom.New(prom.Options{})
	c.Observe(t.Context(), observe.LockReleased{Pending: errors.New("no answer")})
	c.Observe(t.Context(), observe.TermEnded{Pending: errors.New("no answer")})
	shows(t, c, `pawl_releases_pending_total{kind="lock",mode="exclusive"} 1`, `pawl_releases_pending_total{kind="election",mode="exclusive"} 1`)
}

func TestRefusalsOfEtcdAndOfOtherStorageAreCounted(t *testing.T) {
	inBubble(t, prom.Options{}, func(t *testing.T, c *prom.Collector, cluster *pawltest.Cluster, client *pawl.Client) {
		h, err := lock.New(sessionOf(t, client), "n", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		cluster.Delete(h.Key())
		_, err = client.KV().Txn(t.Context(), kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("k", nil)}})
		require.ErrorIs(t, err, kv.ErrFenced)
		var gate fencing.Gate
		require.False(t, c.Refused(gate.Admit("r", 2)), "it was admitted")
		require.True(t, c.Refused(fmt.Errorf("writing: %w", gate.Admit("r", 1))))
		require.False(t, c.Refused(errors.New("another")))
		shows(t, c, `pawl_fenced_total{guard="etcd"} 1`, `pawl_fenced_total{guard="storage"} 1`)
	})
}

// A call on a session can be what ends it, and then notifies the Collector that is
// just being asked.
func TestAScrapeMayBeWhatFindsASessionExpired(t *testing.T) {
	c := prom.New(prom.Options{})
	c.Observe(t.Context(), observe.SessionGranted{Lease: 1, Left: func() time.Duration {
		c.Observe(t.Context(), observe.SessionLost{Lease: 1, Err: lease.ErrExpired})
		return 0
	}})
	shows(t, c, `pawl_sessions 0`)
	shows(t, c, `pawl_sessions_over_total{cause="expired"} 1`)
}

func TestTheMetricsAreNamedAsIsUsual(t *testing.T) {
	c := prom.New(prom.Options{Name: strings.ToLower, ConstLabels: prometheus.Labels{"app": "x"}})
	for _, ev := range everything {
		c.Observe(t.Context(), ev)
	}
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// A panic at the scrape, which is in another goroutine, would end the program.
func TestANameThatIsNotUTF8AndNoSessionsAtAllBreakNoScrape(t *testing.T) {
	c := prom.New(prom.Options{Name: func(name string) string { return name }, Sessions: -1})
	acquisition := observe.Acquisition{ID: 1, Name: "a\xff"}
	c.Observe(context.Background(), observe.SessionGranted{Lease: 1, Left: func() time.Duration { return time.Second }})
	c.Observe(context.Background(), observe.LockEnqueued{Acquisition: acquisition})
	shows(t, c, `pawl_sessions 1`, `pawl_waiting{kind="lock",mode="exclusive",name="a�"} 1`)
	c.Observe(context.Background(), observe.LockAcquired{Acquisition: acquisition, How: observe.Free})
	shows(t, c, `pawl_held{kind="lock",mode="exclusive",name="a�"} 1`)
}
