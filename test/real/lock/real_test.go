package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// admin is an operator's connection to the server, which knows nothing of locks.
type admin struct {
	pb.KVClient
	pb.LeaseClient
}

func operator(t testing.TB, endpoint string) admin {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addressOf(t, endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return admin{pb.NewKVClient(conn), pb.NewLeaseClient(conn)}
}

func addressOf(t testing.TB, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	require.NoError(t, err)
	return u.Host
}

// Hazards H1, H3: what an operator does to a lock that is watched is reported
// within 100 ms. A busy machine may need a second try; the best counts.
func TestAnOperatorsBlowIsNoticedWithin100MillisecondsOnARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	client, op := dial(t, endpoint), operator(t, endpoint)
	for name, blow := range map[string]struct {
		cause  error
		strike func(h *lock.Held, leaseID int64) error
	}{
		"delete": {lock.ErrKeyDeleted, func(h *lock.Held, _ int64) error {
			_, err := op.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(h.Key())})
			return err
		}},
		"overwrite": {lock.ErrKeyOverwritten, func(h *lock.Held, _ int64) error {
			_, err := op.Put(ctx, &pb.PutRequest{Key: []byte(h.Key()), Value: []byte("mine")})
			return err
		}},
		"revoke": {lease.ErrRevoked, func(_ *lock.Held, leaseID int64) error {
			_, err := op.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: leaseID})
			return err
		}},
	} {
		best, unexplained := time.Hour, 0
		for try := 0; try < 20 && best > 100*time.Millisecond; try++ {
			s, err := client.NewSession(ctx, lease.Options{})
			require.NoError(t, err)
			h, err := lock.New(s, name, lock.Options{}).Acquire(ctx)
			require.NoError(t, err)
			done := h.Done()
			waitFor(t, session.ArmDelay+250*time.Millisecond) // etcd brings a new watch up to date every 100 ms
			began := time.Now()
			require.NoError(t, blow.strike(h, s.ID()))
			<-done
			took := time.Since(began)
			err = h.Err()
			known := time.Since(began)
			assert.ErrorIs(t, err, lock.ErrLost)
			if name == "revoke" && errors.Is(err, lock.ErrKeyDeleted) && known >= 50*time.Millisecond && unexplained < 3 {
				unexplained++ // a slow machine may learn that the key is gone and, within 50 ms, not yet why
			} else {
				best = min(best, took)
				assert.ErrorIs(t, err, blow.cause, name)
			}
			require.NoError(t, s.Close(ctx))
		}
		t.Logf("%s: reported within %v", name, best)
		assert.LessOrEqual(t, best, 100*time.Millisecond, name)
	}
}

// Hazard H1, in real time: of twenty holders that are cut off, in whatever
// phase of their renewals, each knows before anybody else has its lock.
func TestTwentyHoldersThatAreCutOffKnowBeforeOthersHaveTheirLocks(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	waits, err := dial(t, endpoint).Session(ctx)
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 20 {
		proxy := faultproxy.Start(t, addressOf(t, endpoint))
		s, err := dial(t, "http://"+proxy.Addr()).NewSession(ctx, lease.Options{TTL: 3 * time.Second})
		require.NoError(t, err)
		name := fmt.Sprint("cut/", i)
		h, err := lock.New(s, name, lock.Options{}).Acquire(ctx)
		require.NoError(t, err)
		proxy.SetDelay(rand.N(50*time.Millisecond), rand.N(50*time.Millisecond))
		all.Go(func() {
			waitFor(t, rand.N(2*time.Second))
			proxy.BlackHole()
		})
		defer proxy.Heal() // so that its client is closed soon
		all.Go(func() {
			next, err := lock.New(waits, name, lock.Options{}).Acquire(ctx)
			lost := h.Err() // looked at when the other holds
			if !assert.NoError(t, err) {
				return
			}
			assert.ErrorIs(t, lost, lock.ErrLost)
			assert.ErrorIs(t, lost, lease.ErrExpired)
			assert.Greater(t, next.Token(), h.Token())
			assert.NoError(t, next.Release(ctx))
		})
	}
	all.Wait()
}

// Hazard A19, as a real server counts it.
func TestAcquireAndReleaseAreTwoRequestsToARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	s, err := dial(t, endpoint).NewSession(ctx, lease.Options{TTL: 300 * time.Second}) // no renewal meanwhile
	require.NoError(t, err)
	before := requests(t, endpoint)
	const n = 100
	for range n {
		h, err := mutex(s).Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	}
	after := requests(t, endpoint)
	for method, count := range after {
		if want := map[string]int{"Txn": 2 * n}[method]; method != "Watch" || count-before[method] > 1 {
			assert.Equal(t, want, count-before[method], method) // a stream of watches may open late
		}
	}
}

// requests is how many requests the server has taken, by method.
func requests(t testing.TB, endpoint string) map[string]int {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(endpoint + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	all := map[string]int{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), "grpc_server_started_total{")
		if !ok {
			continue
		}
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		count, err := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64)
		require.NoError(t, err)
		all[method] += int(count)
	}
	require.NotEmpty(t, all)
	return all
}

// The budget of allocations: little more than what gRPC takes for two requests with a deadline each.
func TestAcquireAndReleaseTakeFewAllocations(t *testing.T) {
	if racedetector.On {
		t.Skip("the race detector's own allocations would be counted")
	}
	ctx := context.Background()
	s, err := dial(t, realServer(t)).Session(ctx)
	require.NoError(t, err)
	m := mutex(s)
	both := func() {
		h, err := m.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	}
	both() // the connection is warm
	const n = 100
	allocs, size := uint64(1e9), uint64(1e9)
	for range 10 { // the least: renewals, and pools that were emptied, are not counted
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			both()
		}
		runtime.ReadMemStats(&after)
		allocs = min(allocs, (after.Mallocs-before.Mallocs)/n)
		size = min(size, (after.TotalAlloc-before.TotalAlloc)/n)
	}
	t.Logf("%d allocations, %d bytes", allocs, size)
	assert.LessOrEqual(t, allocs, uint64(265))
	most := uint64(18*1024 + 512)
	if strings.HasPrefix(grpc.Version, "1.81.") { // takes 1 KiB more than those after it
		most += 1280
	}
	assert.LessOrEqual(t, size, most)
}
