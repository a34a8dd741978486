package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
)

// synced runs f on a Cluster whose member list is synced once a minute, by the first two of n stubs.
func synced(t *testing.T, n int, members func() []*pb.Member, f func(t *testing.T, ss *stubs, c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, n)
		ss.each(func(s *stub) { s.onMembers = members })
		cfg := ss.config("m0:2379", "m1:2379")
		cfg.SyncEvery = time.Minute
		c := ss.connect(cfg)
		synctest.Wait()
		f(t, ss, c)
	})
}

func advertise(id uint64, urls ...string) *pb.Member {
	return &pb.Member{ID: id, Name: "m", ClientURLs: urls}
}

func endpointsOf(c *Cluster) []string {
	n := names(c.list())
	slices.Sort(n)
	return n
}

// Hazard C11.
func TestEndpointsFollowTheMembers(t *testing.T) {
	members := func() []*pb.Member {
		return []*pb.Member{advertise(2, "http://m1:2379"), advertise(3, "http://m2:2379"), advertise(4)}
	}
	synced(t, 3, members, func(t *testing.T, ss *stubs, c *Cluster) {
		old := member(t, c, "m0:2379")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"m1:2379", "m2:2379"}, endpointsOf(c))
		assert.Equal(t, connectivity.Shutdown, old.line.Load().conn.GetState())
		assert.True(t, member(t, c, "m2:2379").checked.Load())
		for range 8 {
			time.Sleep(time.Second) // a member that was queried just before is skipped for a moment
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		assert.NotZero(t, ss.get(2).txns.Load())
		assert.Zero(t, ss.get(0).txns.Load())
	})
}

func TestAMemberThatLeftIsClosedWhenItsRequestsAreDone(t *testing.T) {
	members := func() []*pb.Member { return []*pb.Member{advertise(2, "http://m1:2379")} }
	synced(t, 2, members, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				time.Sleep(3 * time.Minute)
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		old := member(t, c, "m0:2379")
		done := make(chan error)
		go func() { // ends when it is answered
			_, err := c.Txn(t.Context(), Request{Op: "txn", On: old, PerTry: time.Hour, Total: time.Hour}, writing())
			done <- err
		}()
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"m1:2379"}, endpointsOf(c))
		assert.NotEqual(t, connectivity.Shutdown, old.line.Load().conn.GetState())
		require.NoError(t, <-done)
		synctest.Wait()
		assert.Equal(t, connectivity.Shutdown, old.line.Load().conn.GetState())
	})
}

func TestAStreamKeepsAMemberThatLeft(t *testing.T) {
	members := func() []*pb.Member { return []*pb.Member{advertise(2, "http://m1:2379")} }
	synced(t, 2, members, func(t *testing.T, ss *stubs, c *Cluster) {
		old := member(t, c, "m0:2379")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := etcdapi.LeaseKeepAlive(ctx, old)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		assert.NotContains(t, endpointsOf(c), "m0:2379")
		assert.NotEqual(t, connectivity.Shutdown, old.line.Load().conn.GetState())
		cancel()
		synctest.Wait()
		assert.Zero(t, old.inflight.Load())
		assert.Equal(t, connectivity.Shutdown, old.line.Load().conn.GetState())
	})
}

func TestAnAdvertisedEndpointThatDoesNotAnswerReplacesNothing(t *testing.T) {
	members := func() []*pb.Member {
		return []*pb.Member{advertise(1, "http://localhost:2379"), advertise(2, "http://m1:2379", "https://user@x:1")}
	}
	synced(t, 2, members, func(t *testing.T, ss *stubs, c *Cluster) {
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []string{"m0:2379", "m1:2379"}, endpointsOf(c))
	})
}

// Nothing is sent in plain text once anything in the configuration demands TLS, whatever the members
// advertise.
// rule: C2
func TestNoAdvertisedEndpointTakesTLSAway(t *testing.T) {
	for name, cfg := range map[string]Config{
		"a TLS config":      {Endpoints: []string{"a:1"}, TLS: &tls.Config{}},
		"an https endpoint": {Endpoints: []string{"https://a:1"}},
		"one of several":    {Endpoints: []string{"b:1", "https://a:1", "c:1"}},
	} {
		log := new(syncbuffer.Buffer)
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		c, err := newCluster(cfg)
		require.NoError(t, err)
		for range 3 {
			got := c.advertised([]*pb.Member{advertise(1, "http://a:1", "http://x:1", "HTTP://y:1"), advertise(2, "https://x:1", "unix:///s")})
			assert.Len(t, got, 2, name)
			for ep := range got {
				assert.True(t, ep.tls, "%s: %s", name, ep.name)
			}
		}
		require.NoError(t, c.Close())
		assert.Equal(t, 3, strings.Count(log.String(), "http means plain text, but TLS is required"), "once for each endpoint")
	}
	c, err := newCluster(Config{Endpoints: []string{"a:1"}})
	require.NoError(t, err)
	assert.Len(t, c.advertised([]*pb.Member{advertise(1, "http://a:1")}), 1)
	require.NoError(t, c.Close())
}

func TestTheListNeverBecomesEmpty(t *testing.T) {
	for name, members := range map[string][]*pb.Member{
		"nothing":     nil,
		"learners":    {{ID: 1, IsLearner: true, ClientURLs: []string{"http://m0:2379"}}},
		"unreachable": {advertise(9, "http://nowhere:1")},
		"foreign":     {advertise(9, "http://m2:2379")},
	} {
		t.Run(name, func(t *testing.T) {
			synced(t, 3, func() []*pb.Member { return members }, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.get(2).cluster.Store(8)
				time.Sleep(5 * time.Minute)
				assert.NotEmpty(t, c.list())
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				assert.NoError(t, err)
			})
		})
	}
}

func TestALearnerIsNotAddedToTheEndpoints(t *testing.T) {
	members := func() []*pb.Member {
		return []*pb.Member{advertise(1, "http://m0:2379"), advertise(2, "http://m1:2379"), {ID: 3, IsLearner: true, ClientURLs: []string{"http://m2:2379"}}}
	}
	synced(t, 3, members, func(t *testing.T, ss *stubs, c *Cluster) {
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"m0:2379", "m1:2379"}, endpointsOf(c))
	})
}

func TestWithoutSyncEveryNobodyIsQueried(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		time.Sleep(24 * time.Hour) // a stub panics when its members are queried
		assert.Len(t, c.list(), 2)
	})
}

// An advertised member that refuses every token never comes into use, and does not cause repeated
// logins.
// rule: C6
func TestAnAdvertisedEndpointThatRefusesEveryTokenTakesNobodysTokenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		g := guard(ss)
		ss.each(func(s *stub) {
			s.onMembers = func() []*pb.Member {
				return []*pb.Member{advertise(1, "http://m0:2379"), advertise(2, "http://m1:2379"), advertise(3, "http://m2:2379")}
			}
		})
		ss.get(2).do(func(s *stub) {
			s.onStatus = func(context.Context, int64) error { return rpctypes.ErrGRPCInvalidAuthToken }
		})
		cfg := ss.config("m0:2379", "m1:2379")
		cfg.Username, cfg.Password, cfg.SyncEvery = "root", password, time.Second
		c := ss.connect(cfg)
		time.Sleep(10 * coolDown)
		assert.Equal(t, []string{"m0:2379", "m1:2379"}, endpointsOf(c))
		_, token, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.Equal(t, "secret-token-1", token)
		assert.LessOrEqual(t, g.n.Load(), int64(12), "logins: few at that member")
	})
}
