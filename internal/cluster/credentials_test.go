package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// guarded makes the stubs demand a token. A token contains how many were issued, and only the latest is
// valid.
type guarded struct {
	ss     *stubs
	n      atomic.Int64
	off    atomic.Bool
	tokens sync.Map
}

const password = "hunter2"

func guard(ss *stubs) *guarded {
	g := &guarded{ss: ss}
	ss.each(func(s *stub) {
		s.onAuth = func(_ context.Context, _ int64, r *pb.AuthenticateRequest) (string, error) {
			switch {
			case g.off.Load():
				return "", rpctypes.ErrGRPCAuthNotEnabled
			case r.Name != "root" || r.Password != password:
				return "", rpctypes.ErrGRPCAuthFailed
			}
			return g.give(), nil
		}
		s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
			if err := g.refuse(ctx); err != nil {
				return nil, err
			}
			return &pb.TxnResponse{Header: s.header()}, nil
		}
		s.onStatus = func(ctx context.Context, _ int64) error { return g.refuse(ctx) }
	})
	return g
}

func (g *guarded) give() string {
	token := fmt.Sprintf("secret-token-%d", g.n.Add(1))
	g.tokens.Store(token, true)
	return token
}

func (g *guarded) revoke() { g.tokens.Clear() }

func (g *guarded) refuse(ctx context.Context) error {
	if g.off.Load() {
		return nil
	}
	token := mdOf(ctx, "token")
	if token == "" {
		return rpctypes.ErrGRPCUserEmpty
	}
	if _, ok := g.tokens.Load(token); !ok {
		return rpctypes.ErrGRPCInvalidAuthToken
	}
	return nil
}

func (ss *stubs) asRoot() Config {
	cfg := ss.config()
	cfg.Username, cfg.Password = "root", password
	return cfg
}

func TestDialGetsOneTokenAndEveryRequestCarriesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		for range 9 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		synctest.Wait()
		assert.EqualValues(t, 1, g.n.Load())
		assert.EqualValues(t, 9, ss.txns())
		out, token, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.Equal(t, "secret-token-1", token)
		md, _ := metadata.FromOutgoingContext(out)
		assert.Equal(t, metadata.MD{"hasleader": {"true"}, "token": {"secret-token-1"}}, md)
	})
}

// Hazard C5.
func TestARefusedTokenIsFetchedOnceForAllAndTheRequestSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		synctest.Wait()
		for _, refusal := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
			before := g.n.Load()
			_, token, err := c.Outgoing(t.Context(), c.Pick())
			require.NoError(t, err)
			ss.each(func(s *stub) {
				s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
					if mdOf(ctx, "token") == token {
						return nil, refusal
					}
					return &pb.TxnResponse{Header: s.header()}, nil
				}
			})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() { // ends with its request
					_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			assert.Equal(t, before+1, g.n.Load(), refusal)
		}
		assert.NotContains(t, ss.logged(), "member failing", "a refusal is not the member's fault")
	})
}

func TestATokenThatIsAlwaysRefusedIsGivenUpAfterTwoNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		synctest.Wait()
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCInvalidAuthToken) })
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.True(t, IsTokenRefusal(err))
		assert.Equal(t, NotApplied, OutcomeOf(err))
		assert.EqualValues(t, 5, ss.txns(), "a member that refuses twice in a row decides nothing alone")
		assert.EqualValues(t, 3, g.n.Load())
	})
}

func TestRefusingATokenThatIsNoLongerCurrentDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		c.TokenRefused(c.Pick(), "secret-token-0", rpctypes.ErrGRPCInvalidAuthToken)
		c.TokenRefused(c.Pick(), "", rpctypes.ErrGRPCInvalidAuthToken)
		_, _, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.EqualValues(t, 1, g.n.Load())
		c.TokenRefused(c.Pick(), "secret-token-1", rpctypes.ErrGRPCInvalidAuthToken)
		_, token, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.Equal(t, "secret-token-2", token)
	})
}

// Hazard C6.
func TestAuthenticationToggledAtRuntimeIsFollowedBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		g.off.Store(true)
		c := ss.connect(ss.asRoot())
		send := func() {
			t.Helper()
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		send()
		assert.Zero(t, g.n.Load())
		g.off.Store(false)
		send()
		assert.EqualValues(t, 1, g.n.Load())
		g.off.Store(true)
		send()
		g.revoke()
		g.off.Store(false)
		send()
		assert.EqualValues(t, 2, g.n.Load())
		c.TokenRefused(c.Pick(), "secret-token-2", rpctypes.ErrGRPCInvalidAuthToken)
		g.off.Store(true)
		_, token, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.Empty(t, token)
	})
}

// Hazard C7.
func TestAnIdentityFromTheCertificateIsJustSentAgain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		first := true
		ss.each(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				if first {
					first = false
					return nil, rpctypes.ErrGRPCAuthOldRevision
				}
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		assert.EqualValues(t, 2, ss.txns())
	})
}

func TestWithoutAUserADemandForOneIsReportedAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCUserEmpty) })
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		assert.EqualError(t, err, "txn at "+lastAsked(err)+": etcdserver: user name is empty")
		assert.EqualValues(t, 1, ss.txns())
	})
}

func lastAsked(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Endpoint
	}
	return ""
}

func TestDialReportsAWrongPasswordWithoutThePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		guard(ss)
		cfg := ss.asRoot()
		cfg.Password = "not-the-password"
		_, err := Dial(t.Context(), cfg)
		require.Error(t, err)
		assert.Regexp(t, `^authenticate user "root" at m[01]:2379: etcdserver: authentication failed, invalid user ID or password$`, err.Error())
		synctest.Wait()
	})
}

func TestDialReportsAWrongPasswordWhereStatusNeedsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		guard(ss)
		ss.each(func(s *stub) { s.onStatus = nil }) // before 3.6.9 and 3.5.28
		cfg := ss.asRoot()
		cfg.Password = "not-the-password"
		_, err := Dial(t.Context(), cfg)
		require.ErrorContains(t, err, `authenticate user "root" at m0:2379`)
		assert.NotContains(t, err.Error(), "not-the-password")
	})
}

func TestARefusedPasswordIsNotTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		var tries atomic.Int64
		ss.each(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				tries.Add(1)
				return "", rpctypes.ErrGRPCAuthFailed
			}
		})
		g.revoke()
		for range 50 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.ErrorContains(t, err, "authentication failed")
			require.Equal(t, NotApplied, OutcomeOf(err))
			time.Sleep(10 * time.Millisecond)
		}
		assert.EqualValues(t, 1, tries.Load())
		time.Sleep(failurePause)
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.Error(t, err)
		assert.EqualValues(t, 2, tries.Load())
	})
}

func TestWaitingForATokenEndsWithTheContextAndTheFetchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		ss.each(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				time.Sleep(2 * time.Second)
				return g.give(), nil
			}
		})
		g.revoke()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnknown)
		assert.Equal(t, time.Second, time.Since(began))
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		within(t, 2*time.Second, 2*time.Second+2*backoff.Request().First, time.Since(began))
		assert.EqualValues(t, 2, g.n.Load())
	})
}

func TestCloseEndsTheWaitForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		ss.each(func(s *stub) {
			s.onAuth = func(ctx context.Context, _ int64, _ *pb.AuthenticateRequest) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}
		})
		g.revoke()
		var wg sync.WaitGroup
		wg.Go(func() { // ends with Close
			_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
			assert.ErrorIs(t, err, ErrClosed)
			assert.NotErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		_ = c.Close()
		wg.Wait()
	})
}

func TestATokenThatSaysWhenItExpiresIsReplacedBeforeThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		g := guard(ss)
		web := func(life time.Duration) string {
			claims := fmt.Sprintf(`{"username":"root","revision":%d,"exp":%d}`, g.n.Add(1), time.Now().Add(life).Unix())
			token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
			g.tokens.Store(token, true)
			time.AfterFunc(life, func() { g.tokens.Delete(token) })
			return token
		}
		ss.each(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				return web(100 * time.Second), nil
			}
		})
		c := ss.connect(ss.asRoot())
		for range 500 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		assert.EqualValues(t, 500, ss.txns(), "none was refused")
		within(t, 6, 8, time.Duration(g.n.Load()))
	})
}

func TestTokenLife(t *testing.T) {
	now := time.Unix(1000, 0)
	web := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for token, want := range map[string]time.Duration{
		web(`{"exp":1300}`): 300 * time.Second, web(`{"exp":900}`): 0, web(`{}`): 0, web(`{"exp":"x"}`): 0, web(`[`): 0,
		"": 0, "abcDEF.123": 0, "a.b.c": 0, "a.!.c": 0,
	} {
		assert.Equal(t, want, tokenLife(token, now), token)
	}
}

// Hazard O5.
func TestNoPasswordAndNoTokenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		g := guard(ss)
		c := ss.connect(ss.asRoot())
		g.revoke()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCTimeout) })
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.Error(t, err)
		assert.Contains(t, ss.logged(), "member failing")
		for _, secret := range []string{password, "secret-token"} {
			assert.NotContains(t, ss.logged(), secret)
			assert.NotContains(t, err.Error(), secret)
		}
	})
}

func TestALoginOfAClusterThatIsBeingClosedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		ss.get(0).do(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) { return "token", nil }
		})
		c := ss.connect(ss.asRoot())
		c.shut.Store(true) // Close has begun
		c.creds.current.Store(nil)
		_, err := c.creds.For(t.Context(), c.list()[0], time.Now().Add(time.Second))
		require.ErrorIs(t, err, ErrClosed)
	})
}
