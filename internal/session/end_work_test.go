package session

import (
	"runtime"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// marked ends a session with n holds, and returns what was allocated until the first of them was told.
func marked(t *testing.T, n int) (objects uint64) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		told := 0
		var before, first runtime.MemStats
		for range n {
			d := &dependent{}
			d.onEnd = func(error) {
				if told++; told > 1 {
					return
				}
				runtime.ReadMemStats(&first)
				if assert.True(t, s.mu.TryLock(), "the mutex is held while somebody is told") {
					s.mu.Unlock()
				}
				assert.Error(t, s.Err())
			}
			i, _, err := begin(s, "a/")
			require.NoError(t, err)
			wins(s, i)
			s.mu.Lock()
			s.roster.add(s.book.entries[i], d, true)
			s.mu.Unlock()
		}
		runtime.ReadMemStats(&before)
		s.end(lease.ErrClosed, leave)
		assert.Equal(t, n, told)
		objects = first.Mallocs - before.Mallocs
	})
	return objects
}

// However many holds a session has, its end is marked before any of them is told, and nobody is told under the
// mutex. What is done there for each is so little that it allocates one object at most, because whoever asks
// one of them for Err waits for that.
// rule: T6, H1
func TestTheEndOfTenThousandHoldsIsMarkedWithLittleWork(t *testing.T) {
	few, many := marked(t, 100), marked(t, 10_000)
	assert.Less(t, many, few+10_000, "for a hundred times as many holds")
}
