//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain plays the other roles, because a test's run starts this program again.
func TestMain(m *testing.M) {
	err := play(func() error {
		os.Exit(m.Run())
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// counts are the requests that each operation needs. A client sends more when the disk or the machine
// stands still, so only the least is certain here. lock's budget tests have the exact counts, in bubbles.
type counts map[string]float64

func (c counts) reached(t *testing.T, f figures, kit string) {
	for method, n := range c {
		assert.GreaterOrEqual(t, f.Calls[method], n*float64(f.Ops), "%s: %s", kit, method)
	}
}

// A run writes down what happened: counts that the server made, for all three, and the plots.
func TestARunCountsWhatEachSends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := measure(t.Context(), flags{rounds: 2, short: true, span: 200 * time.Millisecond, only: "uncontended-8", data: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, r.write(dir))
	for kit, want := range map[string]counts{lone: {"Txn": 2}, theirs: {"DeleteRange": 1, "Txn": 1}, bare: {"Txn": 2}} {
		assert.Regexp(t, `(?m)^\| [8 ]* ?\| `+kit+` \| `, r.page())
		for _, f := range r.of("uncontended-8", kit, 8) {
			assert.Positive(t, f.Ops)
			want.reached(t, f, kit)
			assert.Positive(t, f.CPU)
			assert.Positive(t, f.ServerCPU)
			assert.GreaterOrEqual(t, f.P99, f.P50)
		}
	}
	assert.Len(t, r.ratios("uncontended-8", ours, bare, 8, figures.throughput), 2)
	assert.FileExists(t, dir+"/performance.md")
	assert.FileExists(t, dir+"/performance/throughput.svg")
}

// In a chain each acquires after the one before it released.
func TestAChainPassesTheLockOnInTurn(t *testing.T) {
	t.Parallel()
	r, err := measure(t.Context(), flags{rounds: 1, short: true, only: chainName(10, 0), data: t.TempDir()})
	require.NoError(t, err)
	for _, kit := range three {
		got := r.of(chainName(10, 0), kit, 10)
		require.Len(t, got, 1, kit)
		assert.Equal(t, 20, got[0].Ops, "two turns of ten")
		assert.GreaterOrEqual(t, got[0].P50, 0.0)
	}
	assert.Positive(t, r.of(chainName(10, 0), ours, 10)[0].Calls["Txn"])
}

// measuring returns results that are empty, and an etcd with so many members.
func measuring(t *testing.T, members int) (*results, *etcd) {
	e, err := startEtcd(t.Context(), t.TempDir(), members, false)
	require.NoError(t, err)
	t.Cleanup(e.stop)
	return &results{flags: flags{short: true}, got: map[string]map[string][][]figures{}}, e
}

// Waiters in separate processes take their turns as one queue, for each name.
func TestWaitersApartTakeTheirTurns(t *testing.T) {
	t.Parallel()
	r, e := measuring(t, 1)
	s := scenario{Name: "apart-12", Task: "apart", Sizes: []int{12}, Processes: 3, Clients: 2, Names: 2, TTL: longTTL, kits: three, turns: 1}
	require.NoError(t, r.round(t.Context(), e, 0, s))
	for kit, want := range map[string]float64{ours: 24, theirs: 12, bare: 24} {
		got := r.of("apart-12", kit, 12)
		require.Len(t, got, 1, kit)
		assert.Equal(t, 12, got[0].Ops)
		assert.GreaterOrEqual(t, got[0].Calls["Txn"], want, "%s: each waiter has enqueued, at the least", kit)
		assert.Positive(t, got[0].CPU)
		assert.Positive(t, got[0].Allocs)
		assert.GreaterOrEqual(t, got[0].P99, got[0].P50)
		assert.GreaterOrEqual(t, got[0].Wall, got[0].P50)
	}
}

// Whatever is handed over beside others' writes, each handover is measured.
func TestHandoversBesideOthersAreMeasured(t *testing.T) {
	t.Parallel()
	r, e := measuring(t, 1)
	for _, s := range busyScenarios() {
		if s.Writes != 2_000 || s.Ahead != shortly || s.Members > 1 {
			continue
		}
		s.Sizes, s.TTL, s.turns = []int{2}, longTTL, 1
		require.NoError(t, r.round(t.Context(), e, 0, s))
		for _, kit := range s.kits {
			got := r.of(s.Name, kit, 2)
			require.Len(t, got, 1, "%s: %s", s.Name, kit)
			assert.Equal(t, 2, got[0].Ops)
			assert.Positive(t, got[0].P90)
		}
	}
	assert.Len(t, r.got, 5)
}

// A first lock is acquired by each client while a member is stopped, and the member goes on after that.
// On a busy machine the peer can wait for such a member for minutes, which this test would wait for too.
func TestFirstLocksBesideAStoppedMemberAreMeasured(t *testing.T) {
	t.Parallel()
	r, e := measuring(t, 3)
	require.NoError(t, r.round(t.Context(), e, 0, scenario{Name: firstLockName, Task: firstLockName, Sizes: []int{3}, Members: 3, TTL: longTTL, kits: []string{ours}, turns: 1}))
	got := r.of(firstLockName, ours, 3)
	require.Len(t, got, 1)
	assert.Equal(t, 3, got[0].Ops)
	assert.GreaterOrEqual(t, got[0].P99, got[0].P50)
}

// Every waiter is in one process and has one name; those of a name are spread.
func TestPartsAreAllOfTheWaiters(t *testing.T) {
	seen, names := map[int]bool{}, map[int]map[int]bool{}
	for i := range 20 {
		p := part{Order: order{Scenario: scenario{Processes: 20, Names: 250}}, Index: i, Total: 1001}
		for j := range p.count(p.Total) {
			at := p.at(j)
			assert.False(t, seen[at])
			seen[at] = true
			if names[p.name(at)] == nil {
				names[p.name(at)] = map[int]bool{}
			}
			names[p.name(at)][i] = true
		}
	}
	assert.Len(t, seen, 1001)
	assert.Len(t, names, 250)
	for _, processes := range names {
		assert.GreaterOrEqual(t, len(processes), 4)
	}
}

// Two that hold one name at a time are noticed, in whatever processes they are.
func TestAnAcquisitionBeforeItsReleaseIsAnError(t *testing.T) {
	sum := report{Names: []times{{Released: []int64{10}}}}
	sum.add(report{Names: []times{{Acquired: []int64{30}, Released: []int64{40}}}, End: 41})
	sum.add(report{Names: []times{{Acquired: []int64{12}, Released: []int64{25}}}, End: 26})
	got, err := sum.handoffs()
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{2, 5}, got)
	assert.Equal(t, []int64{10, 41}, []int64{sum.begin(), sum.End})
	sum.Names[0].Acquired[1] = 24 // they are in order now
	_, err = sum.handoffs()
	assert.ErrorContains(t, err, "before the release")
}

// Where 300 of 5,000 take their turn, each has the cost of one enqueuing, the
// server's as the client's.
func TestAShareOfWhatWasMeasuredIsAShareOfAllOfIt(t *testing.T) {
	m := meter{sum: reading{at: 10 * time.Second, cpu: 5 * time.Second, mallocs: 5000, allocated: 50_000,
		serverCPU: 10, bytesIn: 500, bytesOut: 250, calls: map[string]float64{"Txn": 5000}}}
	m.sum.scale(0.06)
	assert.Equal(t, figures{Ops: 300, Wall: 0.6, CPU: 0.3, ServerCPU: 0.6, Allocs: 300, AllocBytes: 3000,
		BytesIn: 30, BytesOut: 15, Calls: map[string]float64{"Txn": 300}}, m.figures(300))
}

func TestQuantilesAndSpreads(t *testing.T) {
	var times []time.Duration
	for i := range 101 {
		times = append(times, time.Duration(100-i)*time.Second)
	}
	p50, p99 := quantiles(times)
	assert.Equal(t, 50.0, p50)
	assert.Equal(t, 99.0, p99)
	assert.Equal(t, spread{2, 1, 3}, spreadOf([]float64{3, 1, 2}))
	assert.Equal(t, spread{2.5, 1, 4}, spreadOf([]float64{4, 1, 2, 3}))
}

func TestATargetIsMetOnItsOwnSideOfTheBound(t *testing.T) {
	met, of := target{bound: 0.95, atLeast: true}.verdict([]float64{0.94, 0.95, 1})
	assert.Equal(t, []int{2, 3}, []int{met, of})
	met, of = target{bound: 0.5}.verdict([]float64{0.5, 0.51})
	assert.Equal(t, []int{1, 2}, []int{met, of})
}

// A target or a row of the budget of what is not measured would be left out without a word.
func TestEveryTargetAndEveryBudgetIsMeasured(t *testing.T) {
	measured := func(name string, n int) (kits []string) {
		for _, s := range scenarios(false) {
			for _, size := range s.Sizes {
				if s.Name == name && size == n {
					return s.kits
				}
			}
		}
		return nil
	}
	for _, at := range slices.Concat(targets(), kept()) {
		assert.Contains(t, measured(at.scenario, at.n), at.a, at.what)
		if at.b != "" {
			assert.Contains(t, measured(at.scenario, at.n), at.b, at.what)
		}
	}
	for _, l := range limits() {
		for _, kit := range three {
			assert.Contains(t, measured(l.scenario, l.n), kit, l.operation)
		}
	}
}

func TestFiguresHaveAsManyDigitsAsTheyAreWorth(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.123: "0.12", 1.5: "1.50", 12.34: "12.3", 1234.5: "1,235", 1e6: "1,000,000", -2000: "-2,000"} {
		assert.Equal(t, want, figure(x))
	}
}

// Turns of one round add up; what is of one operation, or of one drain, is their mean.
func TestTurnsWeighTheSame(t *testing.T) {
	f := figures{Turns: 1, Ops: 10, Wall: 1, CPU: 10, P50: 1, Heap: 1}
	f = f.add(figures{Turns: 1, Ops: 10, Wall: 2, CPU: 20, P50: 2, Heap: 2})
	f = f.add(figures{Turns: 1, Ops: 10, Wall: 6, CPU: 60, P50: 6, Heap: 6})
	assert.Equal(t, []float64{3, 3, 3, 3, 10.0 / 3}, []float64{f.wall(), f.p50(), f.heap(), f.cpu(), f.throughput()})
}
