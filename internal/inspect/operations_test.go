package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A server that allows half as many operations as usual shows many candidates, and that they all end at
// once.
func TestHalfOfTheUsualOperationsAreEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{inmemory.New(t, etcdfake.Options{Members: 3, MaxTxnOps: 64})}
		const n = 40
		s := w.Session("ann")
		for i := range n {
			w.leads(s, fmt.Sprintf("e%02d", i), "v")
		}
		assert.Len(t, w.read(inspect.Scope{}).Queues, n)
		f := w.follow(inspect.Scope{})
		require.NoError(t, s.Close(w.Context()))
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		for ended := 0; ended < n; {
			events, err := f.f.Next(ctx)
			require.NoError(t, err)
			for _, e := range events {
				assert.Equal(t, inspect.LeaseEnded, e.Cause)
				ended++
			}
		}
	})
}
