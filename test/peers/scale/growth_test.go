package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func playedAs(t *testing.T, text string) growths {
	file := filepath.Join(t.TempDir(), "growth.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	g, err := readGrowths(file)
	require.NoError(t, err)
	return g
}

func TestAFigureIsTakenAtTheTwoGreatestSizes(t *testing.T) {
	g := playedAs(t, `{"growth-x": {"pawl": {"Sizes": [{"N": 1, "Gauges": [{"What": "w", "Value": 7}]},
		{"N": 10, "Gauges": [{"What": "w", "Value": 2}]}, {"N": 100, "Gauges": [{"What": "w", "Value": 200}]}]}}}`)
	l, err := g.line("x", "pawl", "w")
	require.NoError(t, err)
	assert.Equal(t, line{[2]int{10, 100}, [2]float64{2, 200}}, l)
	assert.InDelta(t, 2, l.slope(), 1e-9)
	assert.InDelta(t, 2.2, l.each(), 1e-9)
}

func TestWhatWasNotPlayedIsNotGuessed(t *testing.T) {
	_, err := readGrowths("nowhere.json")
	require.ErrorContains(t, err, "make growth")
	_, err = playedAs(t, `{}`).table()
	require.ErrorContains(t, err, "play it again with make growth")
}
