package watcher_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
)

func onRealEtcd(t *testing.T, tokenTTL uint, f func(t *testing.T, r *real)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, startEtcd(t, tokenTTL)) })
}

func TestAWatchOnAnIdleClusterKeepsItsStream(t *testing.T) { // hazard W2
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		rev := r.put("k", "v")
		h := r.hub("")
		l := &log{t: t}
		h.Watch("k", "", rev+1, l.note) // above the present revision: etcd would not answer progress requests
		time.Sleep(10 * time.Minute)
		assert.Equal(t, watcher.Stats{Watches: 1, Streams: 1}, h.Stats())
		rev = r.put("k", "w")
		synctest.Wait()
		assert.Equal(t, []int64{rev}, l.revisions())
	})
}

func TestCompactionEndsTheWatchesThatMissEventsAndOnlyThose(t *testing.T) { // hazard W8
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		h := r.hub("")
		first := r.put("a", "1")
		behind, ahead := &log{t: t}, &log{t: t}
		h.Watch("quiet", "", first, behind.note)
		h.Watch("a", "", first, ahead.note)
		var last int64
		for range 10 {
			last = r.put("a", "2")
		}
		time.Sleep(time.Second) // etcd brings watches from past revisions up to date every 100 ms
		r.compact(last)
		time.Sleep(time.Minute)
		assert.Empty(t, behind.all(), "a watch that is served is not disturbed")
		r.cut()
		time.Sleep(time.Second)
		assert.Equal(t, watcher.Update{Compacted: last}, behind.end())
		next := r.put("a", "3")
		synctest.Wait()
		assert.Equal(t, next, ahead.revisions()[len(ahead.revisions())-1])

		late := &log{t: t}
		h.Watch("a", "", first, late.note)
		time.Sleep(time.Second)
		require.Equal(t, watcher.Update{Compacted: last}, late.end())
		again := &log{t: t}
		h.Watch("a", "", late.end().Compacted, again.note)
		time.Sleep(time.Second)
		assert.Equal(t, []int64{last, next}, again.revisions())
		assert.Equal(t, 2, h.Stats().Watches)
	})
}

func TestWatchesOutliveTheirAuthTokens(t *testing.T) { // hazards C5, W3
	onRealEtcd(t, 2, func(t *testing.T, r *real) {
		r.enableAuth()
		h := r.hub("root")
		l := &log{t: t}
		h.Watch("a", "", 1, l.note)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 500 * time.Millisecond)
			rev := r.putAs(r.asRoot(), "a", "v")
			synctest.Wait() // l has its event, so that m's watch, which starts below, is created and not shared
			m := &log{t: t}
			w := h.Watch("a", "", rev, m.note)
			time.Sleep(200 * time.Millisecond)
			assert.Equal(t, []int64{rev}, m.revisions())
			assert.Len(t, l.revisions(), i+1)
			w.Cancel()
		}
		// A token lives for 2 s, and etcd looks every second: each of the 14 pauses of 3 s and more
		// outlasts it.
		assert.GreaterOrEqual(t, h.Stats().Moves, uint64(14), "tokens did expire")
	})
}

func TestAuthEnabledWhileWatchesLive(t *testing.T) { // hazard C6
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		with, without := r.hub("root"), r.hub("")
		old1, old2, new1, new2 := &log{t: t}, &log{t: t}, &log{t: t}, &log{t: t}
		with.Watch("a", "", 1, old1.note)
		without.Watch("a", "", 1, old2.note)
		synctest.Wait()
		r.enableAuth()
		with.Watch("a", "", 1, new1.note)
		without.Watch("b", "", 1, new2.note) // what is watched already would be shared
		time.Sleep(10 * time.Second)
		rev := r.putAs(r.asRoot(), "a", "v")
		synctest.Wait()
		assert.Equal(t, []int64{rev}, old1.revisions())
		assert.Equal(t, []int64{rev}, new1.revisions())
		assert.True(t, cluster.IsTokenRefusal(new2.end().Err), "no credentials")
	})
}

func TestWhatMayNotBeReadEndsItsWatchAlone(t *testing.T) { // hazard W3
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		r.enableAuth()
		h := r.hub("reader")
		open, shut := &log{t: t}, &log{t: t}
		h.Watch("open/a", "", 1, open.note)
		h.Watch("shut/a", "", 1, shut.note)
		h.Watch("open/", "open0", 1, (&log{t: t}).note)
		time.Sleep(time.Minute)
		require.Error(t, shut.end().Err)
		assert.True(t, cluster.IsPermissionDenied(shut.end().Err))
		rev := r.putAs(r.asRoot(), "open/a", "v")
		synctest.Wait()
		assert.Equal(t, []int64{rev}, open.revisions())
		assert.Equal(t, 2, h.Stats().Watches)
		assert.Equal(t, 1, h.Stats().Streams)
	})
}

// In real time: with more than 512 watches to bring up to date, etcd resets a ticker to the time that the
// first 512 took, which in a bubble is 0.
func TestTwoThousandWatchesTakeFourStreams(t *testing.T) {
	r := startEtcd(t, 300)
	h := r.hub("")
	logs := make([]*log, 2000)
	ws := make([]*watcher.Watch, len(logs))
	for i := range logs {
		logs[i] = &log{t: t}
		ws[i] = h.Watch(fmt.Sprintf("k/%d", i), "", 1, logs[i].note)
	}
	want := make([][]int64, len(logs))
	for round := range 2 {
		for i := range logs {
			want[i] = append(want[i], r.put(fmt.Sprintf("k/%d", i), "v"))
		}
		if round == 0 {
			r.cut()
		}
		for i := range logs {
			require.Eventually(t, func() bool { return len(logs[i].revisions()) == round+1 }, testscale.Hang, time.Millisecond)
		}
	}
	for i := range logs {
		require.Equal(t, want[i], logs[i].revisions())
	}
	assert.Equal(t, 2000, h.Stats().Watches)
	assert.Equal(t, 4, h.Stats().Streams)
	for _, w := range ws {
		w.Cancel()
	}
	require.Eventually(t, func() bool { return h.Stats().Streams == 0 }, testscale.Hang, time.Millisecond)
	require.Eventually(t, func() bool { return metric(t, "etcd_debugging_mvcc_watcher_total", "") == 0 }, testscale.Hang, time.Millisecond)
}

func TestTwoWatchesCostFourMessagesInAndAtMostSixOut(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		h := r.hub("")
		keep := h.Watch("keep", "", 1, (&log{t: t}).note)
		time.Sleep(time.Millisecond)
		in, out := metric(t, "grpc_server_msg_received_total", "Watch"), metric(t, "grpc_server_msg_sent_total", "Watch")
		mine, before := &log{t: t}, &log{t: t}
		rev := r.put("before", "v")
		w1 := h.Watch("before", "", rev+1, before.note)
		w2 := h.Watch("mine", "", rev+1, mine.note)
		synctest.Wait()
		_, err := r.kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte("before")})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, before.all(), 1)
		w1.Cancel()
		w2.Cancel()
		h.Watch("next", "", 1, (&log{t: t}).note) // the cancels go with its creation
		synctest.Wait()
		assert.EqualValues(t, 4+1, metric(t, "grpc_server_msg_received_total", "Watch")-in)
		assert.LessOrEqual(t, metric(t, "grpc_server_msg_sent_total", "Watch")-out, 6.0+1)
		keep.Cancel()
	})
}

// etcd does not end a watch stream that its client half-closed, so it records a cancellation; but
// no failure.
func TestAnIdleStreamsEndIsNoFailureToEtcd(t *testing.T) { // hazard O6
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		h := r.hub("")
		w := h.Watch("a", "", 1, (&log{t: t}).note)
		time.Sleep(time.Second)
		failures := metric(t, "etcd_network_server_stream_failures_total", "")
		handled := metric(t, "grpc_server_handled_total", "Watch")
		w.Cancel()
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 1, metric(t, "grpc_server_handled_total", "Watch")-handled)
		assert.Equal(t, failures, metric(t, "etcd_network_server_stream_failures_total", ""))
	})
}

// metric sums the server's counter, of one gRPC method if method is not empty.
func metric(t *testing.T, name, method string) (sum float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			ok := method == ""
			for _, l := range m.Label {
				ok = ok || l.GetName() == "grpc_method" && l.GetValue() == method
			}
			if ok {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return sum
	}
	return 0 // not counted yet
}
