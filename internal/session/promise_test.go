package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
)

// nobody is who has an entry of which nobody hears.
type nobody struct{}

func (nobody) Reads() []session.Read { return nil }
func (nobody) Arm()                  {}
func (nobody) HoldExpired()          {}
func (nobody) End(error)             {}
func (nobody) Ended()                {}

// opened returns a new entry of s.
func opened(t *testing.T, s *session.Session) *session.Entry {
	t.Helper()
	e := &session.Entry{}
	_, _, err := s.Begin(e, nobody{}, false, keys.Spec{Prefix: "promised/"})
	require.NoError(t, err)
	return e
}

// V4: the lease is there a nanosecond before a promise ends, and revoked at that instant,
// whatever has ended the session.
// rule: V4
func TestALeaseIsNotRevokedBeforeWhatWasPromised(t *testing.T) {
	for name, end := range map[string]func(c *pawl.Client, s *session.Session){
		"closed":           func(_ *pawl.Client, s *session.Session) { s.CloseInBackground() },
		"abandoned":        func(_ *pawl.Client, s *session.Session) { s.Abandon(context.Canceled) },
		"found to be gone": func(_ *pawl.Client, s *session.Session) { _ = s.Gone("by mistake") },
		"wall clock stepped": func(_ *pawl.Client, s *session.Session) {
			clock.SetWallJump(time.Hour)
			defer clock.SetWallJump(0)
			_ = s.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			abandoning(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
				begin := clock.Now()
				e := opened(t, s)
				require.NoError(t, s.Promise(e, begin.Add(time.Second)))
				require.NoError(t, s.Promise(e, begin.Add(3*time.Second)))
				require.NoError(t, s.Promise(e, begin.Add(2*time.Second)), "an earlier one takes nothing back")
				end(c, s)
				require.Error(t, s.Err())
				time.Sleep(3*time.Second - 1)
				synctest.Wait()
				_, there := fake.Lease(s.ID())
				assert.True(t, there)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				_, there = fake.Lease(s.ID())
				assert.False(t, there)
			})
		})
	}
}

func TestNothingIsPromisedOnceTheSessionHasEnded(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		e := opened(t, s)
		s.CloseInBackground()
		assert.Equal(t, s.Err(), s.Promise(e, clock.Now().Add(time.Hour)))
		synctest.Wait()
		assert.Empty(t, fake.Leases())
		assert.Equal(t, clock.Instant{}, s.Until())
	})
}

// V4: Client.Close leaves the lease to expire, and reports that.
// rule: V4
func TestAClientThatClosesLeavesAPromisedLease(t *testing.T) {
	abandoning(t, func(fake *etcdfake.Cluster, c *pawl.Client, s *session.Session) {
		require.NoError(t, s.Promise(opened(t, s), clock.Now().Add(3*time.Second)))
		assert.ErrorContains(t, c.Close(), "left to expire")
		_, there := fake.Lease(s.ID())
		assert.True(t, there)
		assert.ErrorIs(t, s.Close(context.Background()), kv.ErrUnknown)
	})
}

func TestUntilIsTheDeadlineOnTheClockThatCounts(t *testing.T) {
	abandoning(t, func(_ *etcdfake.Cluster, _ *pawl.Client, s *session.Session) {
		now := clock.Now()
		assert.Equal(t, time.Until(s.Deadline()), s.Until().Sub(now))
	})
}
