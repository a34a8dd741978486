//go:build linux

package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASlopeIsTheExponentOfTheSize(t *testing.T) {
	sizes := []int{10, 100, 1000}
	assert.InDelta(t, 0, slope(sizes, []float64{3, 9, 9}), 1e-9)
	assert.InDelta(t, 1, slope(sizes, []float64{30, 30, 300}), 1e-9)
	assert.InDelta(t, 2, slope(sizes, []float64{300, 300, 30000}), 1e-9)
	assert.True(t, math.IsNaN(slope(sizes[:1], []float64{3})))
	assert.True(t, math.IsNaN(slope(sizes, []float64{1, 0, 2})), "nothing grows from nothing")
}

func TestWhatGrowsMoreThanExpectedIsBold(t *testing.T) {
	size := func(n int, each, all float64) played {
		return played{n, []gauge{{"each", each, false}, {"all", all, true}}}
	}
	page := playing{Sizes: []played{size(10, 1, 5), size(100, 1.5, 50)}}.table()
	assert.Contains(t, page, "| each | 1.00 | 1.50 | 0.18 |")
	assert.Contains(t, page, "| all | 5.00 | 50.0 | 1.00 |")
	page = playing{Sizes: []played{size(10, 1, 5), size(100, 9, 500)}}.table()
	assert.Contains(t, page, "| each | 1.00 | 9.00 | **0.95** |")
	assert.Contains(t, page, "| all | 5.00 | 500 | **2.00** |")
}

// What a run does not play again stays on the page.
func TestASectionCanBePlayedAgainAlone(t *testing.T) {
	folder := t.TempDir()
	play := func(name string, value float64) {
		r := &results{flags: flags{growth: 1}, got: map[string]map[string][][]figures{name: {ours: {{{N: 100, More: []gauge{{"value", value, false}}}}}}}}
		require.NoError(t, r.writeGrowth(folder))
	}
	play("growth-queue", 1)
	play("growth-held", 2)
	play("growth-held", 3)
	page, err := os.ReadFile(filepath.Join(folder, "growth.md"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "| value | 1.00 |")
	assert.Contains(t, string(page), "| value | 3.00 |")
	assert.NotContains(t, string(page), "| value | 2.00 |")
}

func TestEachGrowthHasATaskAndTheLeastSize(t *testing.T) {
	for _, g := range growths(1) {
		assert.Contains(t, tasks, g.Task)
		assert.Len(t, g.Sizes, 1, g.Name)
	}
	for _, g := range growths(100) {
		assert.GreaterOrEqual(t, len(g.Sizes), 3, g.Name)
	}
}

// Each is played whole, at a size at which it takes no time.
func TestWhatGrowsIsMeasured(t *testing.T) {
	t.Parallel()
	r, e := measuring(t, 1)
	for _, g := range growths(1) {
		switch g.Task {
		case "served-life", "served-idle", "renewals": // need pawld, or two TTLs
			continue
		}
		if g.Members > 1 {
			continue
		}
		s := g.scenario
		s.Sizes, s.kits = []int{20}, s.kits[:1]
		s.Span = 0
		if s.Task == "life" {
			s.Sizes[0] = 400
		}
		require.NoError(t, r.round(t.Context(), e, 0, s), s.Name)
		got := r.of(s.Name, ours, s.Sizes[0])
		require.Len(t, got, 1, s.Name)
		assert.NotEmpty(t, got[0].More, s.Name)
	}
	assert.Contains(t, r.played().page(growths(1)), "| names of keys, of all | ")
}
