package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestASessionGivesItselfAlsoAfterItsEnd(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, _ *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		for range 2 {
			got, err := s.Session(t.Context())
			require.NoError(t, err)
			assert.Same(t, s, got)
			require.NoError(t, s.Close(t.Context()))
		}
		synctest.Wait()
		var none context.Context
		_, err = s.Session(none)
		assert.ErrorContains(t, err, "nil context")
		for _, s := range []*pawl.Session{nil, {}} {
			_, err = s.Session(t.Context())
			assert.ErrorContains(t, err, "nil session")
		}
	})
}
