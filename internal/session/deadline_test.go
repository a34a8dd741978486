package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// What ends at a deadline ends at it, whatever holds up the renewals.
// rule: T6
func TestWhatHoldsUpTheRenewalsDoesNotHoldUpTheEnd(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		over := make(chan struct{})
		defer close(over)
		up := &dependent{onArm: func() { <-over }} // it holds up the goroutine of the renewals, for ever
		limited, unlimited := &dependent{own: "limited"}, &dependent{own: "unlimited"}
		require.NoError(t, up.holds(s, 0, true))
		require.NoError(t, limited.holds(s, 0, false))
		require.NoError(t, unlimited.holds(s, 0, false))
		sleep(time.Second)
		limit, deadline := time.Now().Add(time.Second), s.Deadline()
		limited.limits(s, time.Second)
		<-s.Done()
		assert.Equal(t, deadline, time.Now())
		synctest.Wait()
		assert.Zero(t, r.renewals(), "none was made")
		assert.Equal(t, []time.Time{limit}, limited.overs)
		assert.Len(t, unlimited.ends, 1)
		assert.Empty(t, unlimited.overs)
	})
}
