//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Behind a network, an acquisition and its release take two round trips with every kit. A request
// that is sent to the server directly is not delayed.
func TestANetworkDelaysEachRoundTrip(t *testing.T) {
	t.Parallel()
	const rtt = 20 * time.Millisecond
	s := scenario{Name: "far", Task: "uncontended", Sizes: []int{2}, RTT: rtt, Span: 300 * time.Millisecond, TTL: longTTL, kits: five, turns: 1}
	r := resultsOf(t, s)
	for _, kit := range five {
		got := r.of("far", kit, 2)
		require.Len(t, got, 1, kit)
		assert.GreaterOrEqual(t, got[0].P50, 2*rtt.Seconds(), kit)
	}
}

// The intended failures happen in these runs, and everything else succeeds, alone and together.
func TestFaultsAreMeasured(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"one-name", "given-up", "lost-answers", "no-space"} {
		s := scenario{Name: task, Task: task, Sizes: []int{40}, RTT: 2 * time.Millisecond, TTL: longTTL, kits: two, turns: 1}
		r := resultsOf(t, s)
		for _, kit := range two {
			got := r.of(task, kit, 40)
			require.Len(t, got, 1, "%s, %s", task, kit)
			assert.Positive(t, got[0].P50, "%s, %s", task, kit)
			if task == "given-up" {
				assert.GreaterOrEqual(t, got[0].P50, 0.002, "a release takes a round trip")
			}
			if task == "lost-answers" && kit == lone {
				assert.GreaterOrEqual(t, got[0].Calls["Txn"], 2.0*40*repeats, "each enqueue is settled, and then queried")
			}
		}
	}
}

func resultsOf(t *testing.T, s scenario) *results {
	r, e := measuring(t, 1)
	require.NoError(t, r.round(t.Context(), e, 0, s))
	return r
}

// A target without a kit to compare with is about pawl's own figure.
func TestATargetMayBeOfNoOther(t *testing.T) {
	r := &results{got: map[string]map[string][][]figures{"s": {ours: {{{N: 1, Share: 0.5}}}, lone: {{{N: 1, Share: 0.25}}}}}}
	assert.Equal(t, []float64{0.5}, r.ratios("s", ours, "", 1, figures.share))
	assert.Equal(t, []float64{2}, r.ratios("s", ours, lone, 1, figures.share))
}
