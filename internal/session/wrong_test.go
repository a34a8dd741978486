package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// A2, T4: a session whose book is wrong does not know what it holds. It ends at once, with all that it has, and
// leaves its lease to expire.
// rule: T4
func TestASessionWhoseBookIsWrongEndsAndLeavesItsLease(t *testing.T) {
	for name, breaks := range map[string]func(s *Session, e *Entry){
		"a hold that is not on the roster":     func(s *Session, e *Entry) { e.leave() },
		"a hold without evidence":              func(s *Session, e *Entry) { e.Evidence = state.None },
		"an end that is on the roster":         func(s *Session, e *Entry) { e.End = state.HeldTooLong },
		"a removal of what has not ended":      func(s *Session, e *Entry) { e.Phase = state.Undoing },
		"a hold that ended before it was held": func(s *Session, e *Entry) { e.keep().Ended, e.Phase = s.validity.window().sent, state.Waiting },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: time.Minute})
				one, other := &dependent{}, &dependent{}
				n, _, err := begin(s, "a/")
				require.NoError(t, err)
				require.NoError(t, one.holds(s, n, false))
				require.NoError(t, other.waits(s))
				step(s, n, state.ReadEnded{})
				require.NoError(t, s.Err(), "nothing is wrong")
				s.mu.Lock()
				breaks(s, s.book.entries[n])
				s.Step(s.book.entries[n], state.OwnChanged{Value: []byte("\x07\x08\x09")})
				oneCause(t, s.Err(), lease.ErrExpired)
				assert.Contains(t, s.Err().Error(), "entry 1")
				assert.NotContains(t, s.Err().Error(), "7 8 9", "a value is the user's")
				s.mu.Unlock()
				synctest.Wait()
				assert.Equal(t, []error{s.Err()}, one.ends)
				assert.Equal(t, []error{s.Err()}, other.ends)
				assert.True(t, isClosed(s.Done()))
				assert.ErrorIs(t, s.Close(context.Background()), cluster.ErrUnknown)
				assert.Zero(t, r.Counts().Received["LeaseRevoke"])
			})
		})
	}
}

// LD2, V4: a book that is wrong does not know what may go, so no removal is sent after that, though somebody
// holds up those who tell of the end.
// rule: LD2
func TestASessionWhoseBookIsWrongRemovesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: time.Minute})
		until := make(chan struct{})
		defer close(until)
		other := &dependent{onEnd: func(error) { <-until }}
		require.NoError(t, other.waits(s))
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		require.NoError(t, (&dependent{}).holds(s, n, false))
		s.mu.Lock()
		e := s.book.entries[n]
		e.Phase = state.Undoing
		s.remove(e)
		s.Step(e, state.ReadEnded{})
		s.mu.Unlock()
		synctest.Wait()
		assert.NotNil(t, r.Get(key))
	})
}
