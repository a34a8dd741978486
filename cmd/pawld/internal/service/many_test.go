package service

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A client asks for a thousand locks at once. pawld sends no more enqueues at a time than others can
// bear, and the client gets all of them.
// rule: G12
func TestAClientThatAsksForAThousandLocksAtOnceGetsThem(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("first", "warm", "warm")
		defer d.keep("first")()
		var mu sync.Mutex
		under, most := 0, 0
		w.f.Inject(etcdfake.Rule{Op: "enqueue", HoldAnswer: 50 * time.Millisecond, Match: func(q etcdfake.Request) bool {
			n := len(q.Parts("enqueue"))
			mu.Lock()
			defer mu.Unlock()
			under += n
			most = max(most, under)
			time.AfterFunc(50*time.Millisecond, func() {
				mu.Lock()
				defer mu.Unlock()
				under -= n
			})
			return true
		}})
		var wg sync.WaitGroup
		for i := range 1_000 {
			wg.Go(func() {
				a, err := d.Acquire(w.Context(), d.request("first", 5*time.Second), fmt.Sprint("id", i), 0, exclusive(fmt.Sprint("lock", i)), 5000)
				if assert.NoError(w, err) {
					assert.Equal(w, registry.Held, a.State)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		mu.Lock()
		assert.LessOrEqual(w, most, 200)
		mu.Unlock()
		all := d.renew("first", 0)
		require.Len(w, all, 1_001)
	})
}
