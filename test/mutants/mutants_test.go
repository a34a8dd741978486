package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryMutantHasItsPlaceInTheSources(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, m := range mutants {
		assert.False(t, names[m.name], m.name)
		names[m.name] = true
		assert.NotEmpty(t, m.rule)
		assert.NotEmpty(t, m.catch)
		_, err := plant(root, t.TempDir(), m.edits)
		assert.NoError(t, err, m.name)
	}
	assert.GreaterOrEqual(t, len(mutants), 20)
}

func TestAPlaceThatIsGoneIsSaid(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	_, err = plant(root, t.TempDir(), []edit{{"go.mod", "no such text", ""}})
	assert.ErrorContains(t, err, "0 times")
}
