package lane_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/testkit/lane"
)

func TestTheProofIsWholeAndTheEverydayLanesAreNot(t *testing.T) {
	t.Setenv("PAWL_PROOF", "")
	assert.False(t, lane.Proof())
	assert.Equal(t, 3, lane.Of(3, 1000))
	skipped := true
	t.Run("skipped", func(t *testing.T) {
		lane.OnlyProof(t, "this one is")
		skipped = false
	})
	assert.True(t, skipped)

	t.Setenv("PAWL_PROOF", "1")
	assert.True(t, lane.Proof())
	assert.Equal(t, 1000, lane.Of(3, 1000))
	ran := false
	t.Run("runs", func(t *testing.T) {
		lane.OnlyProof(t, "this one is not")
		ran = true
	})
	assert.True(t, ran)
}
