package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// swallow makes all existing connections swallow what is sent. New ones are served.
func swallow(r *rig) {
	for _, m := range r.Members() {
		m.Swallow()
	}
}

// eachSize runs f with clusters of different sizes, because a client has a connection to each member.
func eachSize(t *testing.T, ttl time.Duration, f func(t *testing.T, r *rig)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " members, TTL ", ttl), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: n}, f)
		})
	}
}

// rule: C4
func TestASessionSurvivesConnectionsThatSwallowWhatIsSent(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second} {
		eachSize(t, ttl, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: ttl})
			for i := range testscale.Of(5, 20) { // each time at another moment of the renewals, and further apart than swaps have to be
				time.Sleep(61*time.Second + ttl*time.Duration(i)/time.Duration(testscale.Of(5, 20)))
				swallow(r)
			}
			time.Sleep(2 * ttl)
			synctest.Wait()
			require.NoError(t, s.Err())
		})
	}
}

func TestARequestAfterItsConnectionTurnedMuteIsAnsweredWithinASecond(t *testing.T) {
	eachSize(t, 15*time.Second, func(t *testing.T, r *rig) {
		swallow(r)
		start := time.Now()
		s := r.session(lease.Options{TTL: 15 * time.Second}) // a grant, then a write that is harmless twice
		require.NoError(t, s.Err())
		require.Less(t, time.Since(start), time.Second)
	})
}

// rule: C4
func TestASessionWithAPasswordSurvivesConnectionsThatSwallowWhatIsSent(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " members"), func(t *testing.T) {
			withAuth(t, etcdfake.Options{Members: n}, func(t *testing.T, r *rig, _ operator) {
				s := r.session(lease.Options{TTL: 5 * time.Second})
				time.Sleep(time.Minute)
				r.ForgetTokens() // so that a login is among what the connections swallow
				swallow(r)
				time.Sleep(time.Minute)
				require.NoError(t, s.Err())
			})
		})
	}
}
