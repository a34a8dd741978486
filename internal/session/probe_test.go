package session

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
)

// examine calls ExamineSoon n times and waits for all of them.
func examine(s *Session, n int) {
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		s.ExamineSoon(3*time.Second, all.Done)
	}
	all.Wait()
}

// A thousand locks that learn at once that their keys are gone ask a few times,
// not a thousand.
func TestAThousandExaminationsAtOnceAreAFewRequests(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		r.Member(0).SetDelay(etcdfake.Fixed(5*time.Millisecond), etcdfake.Fixed(5*time.Millisecond))
		before := r.Counts()
		examine(s, 1000)
		require.NoError(t, s.Err())
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 2)

		muteWatches(r.Member(0))
		r.Delete(s.key)
		examine(s, 1000)
		oneCause(t, s.Err(), lease.ErrRevoked)
		examine(s, 1000)
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 4)
	})
}

// An answer to a read that was sent before the call proves nothing to the caller.
func TestAnExaminationIsNotAnsweredByAReadThatWasSentBefore(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		muteWatches(r.Member(0))
		f := r.Inject(etcdfake.Rule{Op: "read session key", HoldAnswer: time.Second, Times: 1})
		s.ExamineSoon(3*time.Second, func() { assert.NoError(t, s.Err()) })
		sleep(100 * time.Millisecond)
		require.Equal(t, 1, f.Hits())
		r.Delete(s.key)
		examine(s, 1)
		oneCause(t, s.Err(), lease.ErrRevoked)
	})
}

func TestAnExaminationEndsInItsBoundAndDecidesNothingThen(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		f := r.Inject(etcdfake.Rule{Op: "read session key", Hang: true})
		done := make(chan struct{})
		began := time.Now()
		s.ExamineSoon(50*time.Millisecond, func() { close(done) })
		<-done
		assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
		require.NoError(t, s.Err())
		f.Lift()
		s.host.Cleanup.Close(0)
		examine(s, 1)
		require.NoError(t, s.Err(), "nothing is read once the client is closed")
	})
}
