package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// abandoning runs f in a bubble with a session of 6 s.
func abandoning(t *testing.T, f func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		defer fake.Close()
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption(), opnames.DialOption()}})
		require.NoError(t, err)
		defer c.Close()
		s, err := c.NewSession(t.Context(), lease.Options{TTL: 6 * time.Second})
		require.NoError(t, err)
		f(fake, c, hooks.SessionOf(s))
	})
}

func TestAnAbandonedSessionHasEndedAndIsNotRenewed(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.DeferRevocation()
		defer done()
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())
		s.Abandon(fmt.Errorf("%w: the work goes on for too long", lease.ErrClosed))
		require.ErrorIs(t, s.Err(), lease.ErrClosed)
		assert.ErrorContains(t, s.Err(), "goes on for too long")
		synctest.Wait()
		before := fake.Counts()
		time.Sleep(time.Minute)
		n := fake.Counts().Since(before).Received
		assert.Zero(t, n["LeaseKeepAlive"])
		assert.Zero(t, n["LeaseRevoke"])
		assert.Empty(t, fake.Leases(), "ended by itself")
	})
}

func TestAbandoningAfterTheEndChangesNothing(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		fake.Revoke(s.ID())
		synctest.Wait()
		s.Abandon(errors.New("late"))
		assert.ErrorIs(t, s.Err(), lease.ErrRevoked)
		assert.NotErrorIs(t, s.Err(), lease.ErrClosed)
	})
}

func TestADeferredRevocationIsMadeWhenTheLastWorkIsDone(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		first, second := s.DeferRevocation(), s.DeferRevocation()
		s.CloseInBackground()
		synctest.Wait()
		_, there := fake.Lease(s.ID())
		require.True(t, there)
		first()
		first()
		synctest.Wait()
		_, there = fake.Lease(s.ID())
		require.True(t, there)
		second()
		synctest.Wait()
		_, there = fake.Lease(s.ID())
		assert.False(t, there)
		assert.NoError(t, s.Close(context.Background()))
	})
}

func TestALeaseIsRevokedAsEverOnceNothingDefersIt(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		s.DeferRevocation()()
		require.NoError(t, s.Close(context.Background()))
		assert.Empty(t, fake.Leases())
	})
}

func TestAnExpiredSessionIsNotRevokedWhileThatIsDeferred(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.DeferRevocation()
		defer done()
		fake.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
		<-s.Done()
		require.ErrorIs(t, s.Err(), lease.ErrExpired)
		time.Sleep(10 * time.Second)
		assert.Empty(t, fake.Leases())
		assert.Zero(t, fake.Counts().Received["LeaseRevoke"])
	})
}

func TestCloseDoesNotWaitForDeferredWorkBeyondItsContext(t *testing.T) {
	abandoning(t, func(_ *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.DeferRevocation()
		defer done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, s.Close(ctx), kv.ErrUnknown)
		assert.LessOrEqual(t, time.Since(begin), 1100*time.Millisecond)
	})
}

func TestClosingTheClientNamesALeaseWhoseRevocationIsDeferred(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
		done := s.DeferRevocation()
		begin := time.Now()
		assert.ErrorContains(t, c.Close(), "left to expire")
		assert.LessOrEqual(t, time.Since(begin), 2100*time.Millisecond)
		done()
		assert.Len(t, fake.Leases(), 1)
	})
}

// Whatever ends a session, however it was made and whichever acquisition defers the revocation, its
// lease is not revoked while that is deferred, and is revoked afterwards.
func TestNoPathRevokesWhileRevocationIsDeferred(t *testing.T) {
	ends := map[string]func(fake *etcdfake.Cluster, s *session.Session){
		"closed":    func(_ *etcdfake.Cluster, s *session.Session) { s.CloseInBackground() },
		"abandoned": func(_ *etcdfake.Cluster, s *session.Session) { s.Abandon(lease.ErrClosed) },
		"its key deleted": func(fake *etcdfake.Cluster, s *session.Session) {
			key, _ := s.Key()
			fake.Delete(key)
		},
		"the wall clock set": func(*etcdfake.Cluster, *session.Session) { clock.SetWallJump(time.Minute) },
		"expired": func(fake *etcdfake.Cluster, s *session.Session) {
			fake.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
			<-s.Done()
		},
	}
	for name, end := range ends {
		for _, resumed := range []bool{false, true} {
			for _, clientWide := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%v", name, resumed, clientWide), func(t *testing.T) {
					abandoning(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
						defer clock.SetWallJump(0)
						if resumed {
							next, err := c.NewSession(context.Background(), lease.Options{Resume: s.Detach()})
							require.NoError(t, err)
							s = hooks.SessionOf(next)
						}
						done := deferBy(t, c, s, clientWide)
						end(fake, s)
						synctest.Wait()
						require.Error(t, s.Err())
						time.Sleep(500 * time.Millisecond)
						synctest.Wait()
						assert.Zero(t, fake.Counts().Received["LeaseRevoke"])
						assert.Len(t, fake.Leases(), 1)
						done()
						synctest.Wait()
						assert.Equal(t, 1, fake.Counts().Received["LeaseRevoke"])
						assert.Empty(t, fake.Leases())
					})
				})
			}
		}
	}
}

// deferBy defers the revocation of s, or of all sessions of c.
func deferBy(t *testing.T, c *pawl.Client, s *session.Session, clientWide bool) (done func()) {
	t.Helper()
	if !clientWide {
		return s.DeferRevocation()
	}
	host, err := hooks.HostOf(c)
	require.NoError(t, err)
	return host.Deferral.Begin()
}

// A client that is closed while it takes a session over leaves the lease, because others may rely on
// what it holds.
func TestAClientThatIsClosedInTheMiddleOfATakeoverLeavesTheLease(t *testing.T) {
	for _, op := range []string{"take over session", "confirm session", "leave the queue"} {
		abandoning(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
			_, _, err := s.Begin(&session.Entry{}, nobody{}, false, keys.Spec{Prefix: "open/"})
			require.NoError(t, err)
			h := s.Detach()
			fake.Inject(etcdfake.Rule{Op: op, Hang: true})
			time.AfterFunc(500*time.Millisecond, func() { _ = c.Close() })
			_, err = c.NewSession(context.Background(), lease.Options{Resume: h})
			require.ErrorIs(t, err, lease.ErrClosed)
			time.Sleep(2500 * time.Millisecond)
			synctest.Wait()
			assert.Zero(t, fake.Counts().Received["LeaseRevoke"])
			assert.Len(t, fake.Leases(), 1)
		})
	}
}

// A revocation that is deferred twice waits for both, in any order in which they begin and end.
func TestAwaitDeferredWaitsForAllThatDefers(t *testing.T) {
	abandoning(t, func(_ *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
		first := deferBy(t, c, s, false)
		over := make(chan bool, 1)
		go func() { over <- s.AwaitDeferred(context.Background()) }()
		synctest.Wait()
		second := deferBy(t, c, s, true)
		first()
		first()
		synctest.Wait()
		third := deferBy(t, c, s, false)
		second()
		synctest.Wait()
		assert.Empty(t, over, "work is still under way")
		third()
		assert.True(t, <-over)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		defer s.DeferRevocation()()
		assert.False(t, s.AwaitDeferred(ctx))
	})
}
