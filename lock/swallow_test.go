package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
)

// swallow makes all connections there are swallow what is sent; new ones are served.
func (w *fixture) swallow() {
	for _, m := range w.f.Members() {
		m.Swallow()
	}
}

func TestConnectionsThatSwallowWhatIsSentDelayALockForASecondAtMost(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, c := range []struct {
			name string
			f    func(w *fixture)
		}{
			{"request", func(w *fixture) {
				s := w.session()
				w.swallow()
				start := time.Now()
				w.release(w.acquire(s))
				assert.Less(w, time.Since(start), time.Second)
			}},
			{"first use", func(w *fixture) {
				c := w.client(pawl.Config{})
				w.swallow()
				start := time.Now()
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				w.release(w.acquire(s))
				assert.Less(w, time.Since(start), time.Second)
			}},
			// The waiter itself sends nothing; its session's renewals and its point reads do.
			{"waiter", func(w *fixture) {
				h := w.acquire(w.session())
				a := w.waiting(w.session())
				w.swallow()
				time.Sleep(10 * time.Second)
				w.release(h)
				start := time.Now()
				w.release(a.won())
				assert.Less(w, time.Since(start), time.Second)
			}},
			{"holder", func(w *fixture) {
				h := w.acquire(w.session())
				time.Sleep(5 * time.Second) // it is watched
				w.swallow()
				time.Sleep(time.Minute)
				w.held(h)
				w.release(h)
			}},
		} {
			t.Run(fmt.Sprint(c.name, " with ", members, " members"), func(t *testing.T) { inBubbleOf(t, members, c.f) })
		}
	}
}
