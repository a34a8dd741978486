package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// forsaking runs f in a bubble with a session of 6 s.
func forsaking(t *testing.T, f func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		defer fake.Close()
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
		require.NoError(t, err)
		defer c.Close()
		s, err := c.NewSession(t.Context(), lease.Options{TTL: 6 * time.Second})
		require.NoError(t, err)
		f(fake, c, inside.SessionOf(s))
	})
}

func TestForsakenSessionIsOverAndNotRenewed(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.Spare()
		defer done()
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())
		s.Forsake(fmt.Errorf("%w: the work goes on for too long", lease.ErrClosed))
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

func TestForsakeAfterTheEndChangesNothing(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		fake.Revoke(s.ID())
		synctest.Wait()
		s.Forsake(errors.New("late"))
		assert.ErrorIs(t, s.Err(), lease.ErrRevoked)
		assert.NotErrorIs(t, s.Err(), lease.ErrClosed)
	})
}

func TestSparedLeaseIsRevokedWhenTheLastWorkIsDone(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		first, second := s.Spare(), s.Spare()
		s.Begone()
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

func TestLeaseIsRevokedAsEverOnceNothingSparesIt(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		s.Spare()()
		require.NoError(t, s.Close(context.Background()))
		assert.Empty(t, fake.Leases())
	})
}

func TestExpiredSessionIsNotRevokedWhileItIsSpared(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.Spare()
		defer done()
		fake.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
		<-s.Done()
		require.ErrorIs(t, s.Err(), lease.ErrExpired)
		time.Sleep(10 * time.Second)
		assert.Empty(t, fake.Leases())
		assert.Zero(t, fake.Counts().Received["LeaseRevoke"])
	})
}

func TestCloseDoesNotWaitForSparedWorkBeyondItsContext(t *testing.T) {
	forsaking(t, func(_ *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		done := s.Spare()
		defer done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, s.Close(ctx), kv.ErrUnknown)
		assert.LessOrEqual(t, time.Since(begin), 1100*time.Millisecond)
	})
}

func TestClosingTheClientNamesALeaseThatIsSpared(t *testing.T) {
	forsaking(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
		done := s.Spare()
		begin := time.Now()
		assert.ErrorContains(t, c.Close(), "left to expire")
		assert.LessOrEqual(t, time.Since(begin), 2100*time.Millisecond)
		done()
		assert.Len(t, fake.Leases(), 1)
	})
}
