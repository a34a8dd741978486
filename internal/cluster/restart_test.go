package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// judging makes a stub accept only those tokens of g that may accepts.
func (g *guarded) judging(s *stub, may func(token string) bool) {
	s.do(func(s *stub) {
		s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
			if err := g.refuse(ctx); err != nil {
				return nil, err
			}
			if !may(mdOf(ctx, "token")) {
				return nil, rpctypes.ErrGRPCInvalidAuthToken
			}
			return &pb.TxnResponse{Header: s.header()}, nil
		}
	})
}

// busy sends a request every 100 ms, each of which is served.
func busy(t *testing.T, c *Cluster, d time.Duration) {
	for range d / (100 * time.Millisecond) {
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
	}
}

// A member that restarts forgets simple tokens. It may restart again before it has accepted the next
// one, which the others accept meanwhile.
// rule: C7
func TestAMemberThatRestartsAgainAndAgainIsUsed(t *testing.T) {
	for _, restarts := range []int64{1, 2, 3, 5} {
		t.Run(fmt.Sprint(restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ss := newStubs(t, 3)
				g := guard(ss)
				c := ss.connect(ss.asRoot())
				busy(t, c, time.Second)
				var unknown atomic.Int64 // tokens up to this one
				unknown.Store(1)
				left := restarts - 1
				g.judging(ss.get(0), func(token string) bool {
					var n int64
					_, _ = fmt.Sscanf(token, "secret-token-%d", &n)
					if n > unknown.Load() {
						return true
					}
					if left > 0 {
						left--
						unknown.Store(g.n.Load() + 1) // it forgets the next one before that is used
					}
					return false
				})
				busy(t, c, 2*time.Minute)
				before := ss.get(0).txns.Load()
				busy(t, c, 10*time.Second)
				assert.Greater(t, ss.get(0).txns.Load(), before+20)
				assert.LessOrEqual(t, g.n.Load(), 2+restarts)
			})
		})
	}
}

// A member with a different key accepts only the tokens that it has issued, and no other member accepts
// those.
// rule: C7
func TestAMemberThatTakesItsOwnTokensAloneIsUsedWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		busy(t, c, time.Second)
		var own atomic.Value
		own.Store("")
		ss.get(0).do(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				own.Store(g.give())
				return own.Load().(string), nil
			}
		})
		g.judging(ss.get(0), func(token string) bool { return token == own.Load() })
		for i := range 2 {
			g.judging(ss.get(1+i), func(token string) bool { return token != own.Load() })
		}
		busy(t, c, time.Minute)
		logins, refused := g.n.Load(), ss.get(0).txns.Load()
		busy(t, c, 2*time.Minute)
		assert.Greater(t, ss.get(0).txns.Load(), refused+300)
		assert.Equal(t, logins, g.n.Load())
	})
}

// rule: C7
func TestAMemberThatTakesNoTokenIsLoggedInAtAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		busy(t, c, time.Second)
		g.judging(ss.get(0), func(string) bool { return false })
		busy(t, c, 10*time.Minute)
		assert.LessOrEqual(t, g.n.Load(), int64(14))
		g.judging(ss.get(0), func(string) bool { return true })
		busy(t, c, time.Minute)
		before := ss.get(0).txns.Load()
		busy(t, c, 10*time.Second)
		assert.Greater(t, ss.get(0).txns.Load(), before+20)
	})
}
