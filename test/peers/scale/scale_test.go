package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var small = deployment{holders: 20_000, processes: 200, hold: 10 * time.Minute, contended: 0.1, ttl: time.Minute, cores: 2, span: time.Minute, seed: 1}

var some = costs{pair: 500e-6, handoff: 1e-3, long: 2e-3, longest: 5e-3, session: 2e-3, open: 2e-3, handover: 1e-3,
	lockHeap: 4000, waitHeap: 8000, leaseHeap: 4000, lockRAM: 2000}

func TestTwiceTheClustersBearHalfTheNamesAndAsManyRenewals(t *testing.T) {
	one, closeOne, err := shardsOf(1)
	require.NoError(t, err)
	defer closeOne()
	four, closeFour, err := shardsOf(4)
	require.NoError(t, err)
	defer closeFour()
	a, b := small.on(some, one.Label), small.on(some, four.Label)
	assert.Equal(t, small.holders, a.names)
	assert.InDelta(t, small.holders/4, b.names, 300)
	assert.Equal(t, small.processes, a.sessions)
	assert.Equal(t, small.processes, b.sessions, "each process has names on each cluster")
	assert.Greater(t, a.utilisation, b.utilisation)
	assert.LessOrEqual(t, b.delay[1], a.delay[1])
}

func TestAProcessHasASessionOnlyWhereItHasNames(t *testing.T) {
	w := small
	w.processes = w.holders
	four, closeFour, err := shardsOf(4)
	require.NoError(t, err)
	defer closeFour()
	names, sessions := w.perCluster(four.Label)
	assert.Equal(t, names, sessions)
}

// An M/M/c queue's mean is known; the simulation's median and tail must lie around it.
func TestTheSimulatedQueueIsTheKnownOne(t *testing.T) {
	w := small
	w.contended, w.cores, w.span = 0, 1, 20*time.Minute
	c := some
	c.session = 0
	l := load{names: 1, acquired: 1000} // 2,000 requests a second of 250 µs: half of the core
	got := w.queue(c, l)
	assert.Equal(t, time.Duration(0), got[0].Truncate(time.Millisecond))
	// P(wait > t) = ρ e^(-(1-ρ)t/s): the 99th percentile is s ln(ρ/0.01)/(1-ρ).
	assert.InDelta(t, 1956, got[1].Microseconds(), 100)
}

func TestThePageSaysWhatOneClusterCarries(t *testing.T) {
	g, err := readGrowths("../../../docs/results/growth.json")
	require.NoError(t, err)
	text, err := page(some, g, small)
	require.NoError(t, err)
	assert.Contains(t, text, "| an uncontended acquisition and release | 500 µs of CPU | 2,800 a second | `uncontended-64` |")
	assert.Contains(t, text, fmt.Sprintf("| 1 | %s |", grouped(small.holders)))
	assert.NotContains(t, text, "%!")
}

func TestWhatWasNotMeasuredIsNotGuessed(t *testing.T) {
	_, err := readCosts("../../../go.mod")
	require.Error(t, err)
	_, err = readCosts("nowhere.json")
	require.ErrorContains(t, err, "make performance")
	bad := small
	bad.hold = 0
	require.Error(t, bad.check())
}
