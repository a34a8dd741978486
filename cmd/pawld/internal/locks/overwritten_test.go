package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A key that somebody wrote to while no pawld ran is nobody's any more. It must hold up neither
// the restart, nor the name for as long as pawld's session.
func TestAKeyThatWasOverwrittenDuringARestartBlocksNobody(t *testing.T) {
	for name, want := range map[string]Want{
		"lock":     exclusive("name"),
		"election": {Names: []string{"name"}, Modes: []Mode{Election}, Value: []byte("v")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				d := w.daemon()
				a := d.acquire("a", "1", time.Second, want)
				require.Equal(w, table.Held, a.State)
				saved := d.left()
				w.f.Put(a.Keys[0], "x", 0)
				next := w.daemon()
				begin := time.Now()
				taken, err := next.Resume(w.Context(), saved)
				require.NoError(w, err)
				assert.Zero(w, taken)
				assert.Less(w, time.Since(begin), time.Second, "others wait for it")
				assert.Equal(w, Why("KEY_OVERWRITTEN"), WhyOf(next.one("a").Why))
				begin = time.Now()
				for next.acquire("b", "1", 4*time.Second, want).State != table.Held {
					require.Less(w, time.Since(begin), time.Minute, "the name is blocked")
				}
			})
		})
	}
}

// What could not be taken over in time is not kept in its queue for as long as pawld's session.
func TestALockThatCouldNotBeTakenOverInTimeIsGivenUp(t *testing.T) {
	inBubble(t, func(w *world) {
		d := w.daemon()
		d.hold("a", "1", "slow")
		saved := d.left()
		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("slow"), Lose: true})
		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Zero(w, taken)
		lost.Lift()
		begin := time.Now()
		for next.acquire("b", "1", 4*time.Second, exclusive("slow")).State != table.Held {
			require.Less(w, time.Since(begin), time.Minute, "the name is blocked")
		}
	})
}

// V8: what was forfeited and is not deleted yet when pawld stops is no release when its successor
// deletes it.
func TestAForfeitThatIsPendingAtARestartIsNoRelease(t *testing.T) {
	inBubble(t, func(w *world) {
		d, other := w.daemon(), w.daemon()
		l := d.hold("a", "1", "name")
		want := exclusive("name")
		want.Delay = 7 * time.Second
		require.Equal(w, table.Waiting, other.acquire("b", "1", time.Second, want).State)
		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Match: func(r etcdfake.Request) bool {
			return strings.Contains(fmt.Sprint(r.Message), "request_delete_range") && about("name")(r)
		}})
		other.keep("b")
		begin := time.Now()
		for time.Since(begin) < h+500*time.Millisecond { // its session is forfeited, and its key is there
			require.Equal(w, table.Waiting, other.acquire("b", "1", time.Second, want).State)
		}
		require.NotNil(w, w.f.Get(l.Keys[0]))
		saved := d.left()
		lost.Lift()
		_, err := w.daemon().Resume(w.Context(), saved)
		require.NoError(w, err)
		begin = time.Now()
		for other.acquire("b", "1", time.Second, want).State != table.Held {
			require.Less(w, time.Since(begin), time.Minute)
		}
		assert.GreaterOrEqual(w, time.Since(begin), 4*time.Second, "the delay, less what the takeover waited for the deletion")
	})
}
