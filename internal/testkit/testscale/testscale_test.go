package testscale

import (
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestTheProofIsWholeAndTheEverydayLanesAreNot(t *testing.T) {
	t.Setenv("PAWL_PROOF", "")
	assert.False(t, Proof())
	assert.Equal(t, 3, Of(3, 1000))
	skipped := true
	t.Run("skipped", func(t *testing.T) {
		OnlyProof(t, "this one is")
		skipped = false
	})
	assert.True(t, skipped)

	t.Setenv("PAWL_PROOF", "1")
	assert.True(t, Proof())
	assert.Equal(t, 1000, Of(3, 1000))
	ran := false
	t.Run("runs", func(t *testing.T) {
		OnlyProof(t, "this one is not")
		ran = true
	})
	assert.True(t, ran)
}

func TestASeedIsOfTheEnvironmentOrAnother(t *testing.T) {
	t.Setenv("PAWL_SEED", "")
	assert.NotEqual(t, Seed(t), Seed(t))
	t.Setenv("PAWL_SEED", "18446744073709551615")
	assert.Equal(t, ^uint64(0), Seed(t))
}

func TestTheCommandThatRepeatsATestNamesItAndItsPackage(t *testing.T) {
	t.Setenv("PAWL_PROOF", "")
	assert.Equal(t, "PAWL_SEED=7 go test -count=1 -run '^TestA$/^b$' example.com/pawl/elect",
		command(7, "TestA/b", "example.com/pawl/elect_test.TestA.func1"))
	assert.Equal(t, "PAWL_SEED=7 go test -count=1 -run '^TestA$' example.com/pawl/internal/queue",
		command(7, "TestA", "example.com/pawl/internal/queue.TestA"))
	t.Setenv("PAWL_PROOF", "1")
	assert.Equal(t, "PAWL_PROOF=1 PAWL_SEED=7 go test -count=1 -run '^TestA$' example.com/pawl/lock",
		command(7, "TestA", "example.com/pawl/lock_test.TestA"))
}
