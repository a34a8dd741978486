package lease

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func handleOf(s detached.State) Handle { return Handle{s.Text()} }

var someHandles = []Handle{{}, handleOf(detached.State{Lease: 255, Cluster: 2, TTL: time.Second, Key: "k", Create: 3, Mod: 3, Next: 1})}

// Rule N6: a Handle is a comparable value, which is equal after a round trip through its text.
func TestAHandlesTextReadsBackEqual(t *testing.T) {
	for _, h := range someHandles {
		text, err := h.MarshalText()
		require.NoError(t, err)
		back := someHandles[1]
		require.NoError(t, back.UnmarshalText(text))
		assert.True(t, h == back, "%v", h)
	}
}

func TestAMalformedHandleIsRefusedAndChangesNothing(t *testing.T) {
	for _, text := range []string{"x", "pawl1", "pawl1.", "pawl1.e30"} {
		h := someHandles[1]
		require.ErrorContains(t, h.UnmarshalText([]byte(text)), "lease: handle: ", text)
		assert.Equal(t, someHandles[1], h)
	}
}

func TestHandleNamesItsLeaseForLogs(t *testing.T) {
	assert.Equal(t, "no session", Handle{}.String())
	assert.Equal(t, "session of lease ff", someHandles[1].String())
}
