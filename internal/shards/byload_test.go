package shards

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// evened is a plan by load, and the sums of its members.
func evened(all []Candidate, owners []int, load []float64, cool ...int) (b *ByLoad, to []int, sums []float64) {
	b = &ByLoad{Load: load, Cool: SetOf(cool...)}
	to = b.Plan("name", all, owners, nil, nil)
	sums = make([]float64, len(all))
	for i, m := range to {
		if m != Nobody {
			sums[m] += load[i]
		}
	}
	return b, to, sums
}

func TestLoadsInPlaceOfNumbers(t *testing.T) {
	for _, c := range []struct {
		name   string
		all    []Candidate
		owners []int
		load   []float64
		want   []float64 // the sums
		moves  int
	}{
		{"nobody", nil, unowned(2), []float64{1, 1}, []float64{}, 0},
		{"shards without an owner, the heaviest first", of(1, 1), unowned(4), []float64{1, 3, 2, 2}, []float64{4, 4}, 0},
		{"even as it is", of(1, 1), []int{0, 0, 1, 1}, []float64{3, 3, 3, 3}, []float64{6, 6}, 0},
		{"below the edge", of(1, 1), []int{0, 0, 0, 1, 1}, []float64{3, 2, .9, 2, 2.3}, []float64{5.9, 4.3}, 0},
		{"above the edge", of(1, 1), []int{0, 0, 0, 1, 1}, []float64{3, 2, 1.1, 2, 1.5}, []float64{5, 4.6}, 1},
		{"below half", of(1, 1, 1, 1), []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3}, []float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3}, []float64{8, 8, 8, 9}, 3},
		{"an exchange", of(1, 1), []int{0, 0, 1, 1}, []float64{8, 4, 3, 2}, []float64{9, 8}, 0},
		{"one that is heavier than a share gets a worker for itself", of(1, 1, 1), []int{0, 0, 1, 2, 2}, []float64{100, 25, 10, 10, 10}, []float64{100, 25, 30}, 2},
		{"and what is light beside it stays", of(1, 1, 1), []int{0, 0, 1, 2, 2}, []float64{100, 2, 3, 3, 3}, []float64{102, 3, 6}, 0},
		{"weights are capacity", of(1, 3), []int{0, 0, 0, 0, 1, 1, 1, 1}, []float64{1, 1, 1, 1, 1, 1, 1, 1}, []float64{2, 6}, 2},
		{"a weight below 1 gets nothing", of(-1, 1, 1), []int{0, 0, 1, 2}, []float64{1, 2, 3, 3}, []float64{0, 5, 4}, 0},
		{"all are idle", of(1, 1), []int{0, 0, 0, 1, Nobody}, []float64{0, 0, 0, 0, 0}, []float64{0, 0}, 0},
		{"fewest shards at equal loads", of(1, 1), []int{0, 0, 0, 1, Nobody}, []float64{1, 1, 1, 3, 0}, []float64{3, 3}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, to, sums := evened(c.all, c.owners, c.load)
			slices.Sort(sums)
			slices.Sort(c.want)
			if c.name != "an exchange" {
				assert.Equal(t, c.want, sums)
				assert.Equal(t, c.moves, b.Moved.Len())
			}
			again := &ByLoad{Load: c.load}
			assert.Equal(t, to, again.Plan("name", c.all, to, nil, nil), "the next plan changes nothing")
		})
	}
}

func TestTwoShardsAreExchangedWhereNoneCanMove(t *testing.T) {
	b, _, sums := evened(of(1, 1), []int{0, 0, 1, 1}, []float64{7, 6, 5, 3})
	assert.Equal(t, []float64{11, 10}, sums)
	assert.Equal(t, 2, b.Moved.Len())
}

// A heavy shard goes for several light ones where neither a move nor an exchange of two helps.
func TestAHeavyShardIsTradedForSeveral(t *testing.T) {
	load := []float64{98, 56}
	owners := []int{0, 0}
	for m := 1; m < 4; m++ {
		for range 19 {
			owners, load = append(owners, m), append(load, 6)
		}
	}
	b, _, sums := evened(of(1, 1, 1, 1), owners, load)
	assert.LessOrEqual(t, slices.Max(sums), up*b.level)
	assert.Less(t, b.Moved.Len(), 10)
}

func TestAShardThatIsCoolStays(t *testing.T) {
	load := []float64{3, 2, 2, 1}
	_, to, _ := evened(of(1, 1), []int{0, 0, 0, 1}, load, 0)
	assert.Equal(t, 0, to[0])
	_, to, _ = evened(of(1, 1), []int{0, 0, 0, 1}, load, 0, 1, 2, 3)
	assert.Equal(t, []int{0, 0, 0, 1}, to)
	_, to, _ = evened(of(1, 1), []int{0, 0, 0, Nobody}, load, 0, 1, 2, 3)
	assert.Equal(t, []int{0, 0, 0, 1}, to, "unless it has nobody")
}

func TestWhatAMemberCannotTakeGoesElsewhereByLoadToo(t *testing.T) {
	all := of(1, 1, 1)
	all[0].Cannot = SetOf(0, 1)
	_, to, _ := evened(all, []int{0, 1, 1, 1, 1, 2}, []float64{3, 3, 3, 3, 1, 4})
	assert.NotEqual(t, 0, to[0])
	assert.NotEqual(t, 0, to[1])
	for m := range all {
		all[m].Cannot = SetOf(5)
	}
	_, to, _ = evened(all, []int{0, 1, 1, 1, 1, 2}, []float64{3, 3, 3, 3, 1, 4})
	assert.Equal(t, Nobody, to[5])
}

func TestOneThatIsFullIsLeftAsItIsByLoad(t *testing.T) {
	all := of(1, 1, 1)
	all[0].Fixed = true
	_, to, sums := evened(all, []int{0, 0, 0, 1, 1, 1, 1, 2}, []float64{9, 9, 9, 2, 2, 2, 2, 1})
	assert.Equal(t, []int{0, 0, 0}, to[:3])
	assert.Equal(t, 27.0, sums[0])
	assert.LessOrEqual(t, sums[1], 5.0)
}

// rule: SH9
func TestOneOnTrialGetsOneLightShardByLoad(t *testing.T) {
	all := of(1, 1, 1)
	all[0].Most = 1
	load := []float64{5, 4, 1, 5, 4, 1}
	_, to, sums := evened(all, []int{1, 1, 1, 2, 2, 2}, load)
	assert.Equal(t, 1, loads(3, to)[0])
	assert.Equal(t, 1.0, sums[0])
	_, to, _ = evened(all, to, load)
	assert.Equal(t, 1.0, load[slices.Index(to, 0)], "it keeps it")
	_, to, _ = evened(all, []int{0, 0, 1, 1, 2, 2}, load)
	assert.Equal(t, 1, loads(3, to)[0], "and gives up the others")
	_, to, _ = evened(all, []int{Nobody, 1, 1, 2, 2, 2}, load)
	assert.Equal(t, 0, to[0], "and takes one that nobody has")
}

// rule: SH10
func TestShardsThatFailEverywhereAreNobodysLoad(t *testing.T) {
	b := &ByLoad{Load: []float64{100, 1, 1, 100, 1, 1}}
	owners := []int{0, 0, 0, Nobody, 1, 1}
	to := b.Plan("name", of(1, 1), owners, SetOf(0, 3), SetOf(3))
	assert.Equal(t, owners, to)
	b = &ByLoad{Load: b.Load}
	to = b.Plan("name", of(1, 1), owners, SetOf(0, 3), nil)
	assert.Equal(t, []int{0, 0, 0, 1, 1, 1}, to)
}

// Ten shards on three workers are four, three and three, which is as even as it gets. Noise moves none.
func TestWhatIsAsEvenAsTheShardsAllowIsAtRest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	owners := []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 2}
	for range 1000 {
		load := make([]float64, 10)
		for i := range load {
			load[i] = 0.97 + 0.06*r.Float64()
		}
		b, _, _ := evened(of(1, 1, 1), owners, load)
		require.Zero(t, b.Moved.Len())
	}
}

func TestIdleShardsAreBoundedByNumber(t *testing.T) {
	n := 1000
	load := make([]float64, n)
	owners := unowned(n)
	for i := range 10 {
		load[i], owners[i] = 1, i%9 // the tenth has nothing
	}
	_, to, _ := evened(of(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), owners, load)
	assert.LessOrEqual(t, slices.Max(loads(10, to)), mostShards*n/10)
	assert.Zero(t, loads(10, to)[10], "all have owners")
}

func TestThePlanByLoadDoesNotDependOnTheOrderOfItsArguments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		all, owners := random(r)
		load := make([]float64, len(owners))
		for i := range load {
			load[i] = float64(r.IntN(4)) // with ties
		}
		want := (&ByLoad{Load: load}).Plan("name", all, owners, nil, nil)
		perm := r.Perm(len(all))
		mixed, back := make([]Candidate, len(all)), map[int]int{Nobody: Nobody}
		for to, from := range perm {
			mixed[to], back[from] = all[from], to
		}
		renamed := make([]int, len(owners))
		for i, m := range owners {
			renamed[i] = back[m]
		}
		got := (&ByLoad{Load: load}).Plan("name", mixed, renamed, nil, nil)
		for i, m := range want {
			require.Equal(t, back[m], got[i])
		}
	}
}

// Whatever the loads and weights are: every shard that can has an owner, no move makes the higher of two
// higher, and the next plan has nothing to do.
func TestAPlanByLoadEndsAndIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		all, owners := random(r)
		some := slices.ContainsFunc(all, func(c Candidate) bool { return c.Weight > 0 })
		load := make([]float64, len(owners))
		for i := range load {
			load[i] = math.Exp(2 * r.NormFloat64())
		}
		b := &ByLoad{Load: load}
		to := b.Plan("name", all, owners, nil, nil)
		require.Equal(t, !some, slices.Contains(to, Nobody))
		again := &ByLoad{Load: load}
		require.Equal(t, to, again.Plan("name", all, to, nil, nil))
		require.Zero(t, again.Moved.Len())
	}
}

// manyLoads are 1,000 shards with Zipf's loads on 50 workers, mixed up or evened out.
func manyLoads(even bool) (all []Candidate, owners []int, load []float64) {
	r := rand.New(rand.NewPCG(1, 2))
	for m := range 50 {
		all = append(all, Candidate{Lease: int64(m + 1), Weight: 1})
	}
	load = zipf(r, 1000, 0.8)
	for range load {
		owners = append(owners, r.IntN(50))
	}
	if even {
		owners = (&ByLoad{Load: load}).Plan("name", all, owners, nil, nil)
	}
	return all, owners, load
}

// A plan looks at few shards and members, so that 1,000 shards of 50 workers take at most a millisecond
// (BenchmarkByLoad).
func TestAPlanByLoadLooksAtLittle(t *testing.T) {
	for _, c := range []struct {
		even bool
		most int
	}{{true, 20_000}, {false, 120_000}} {
		all, owners, load := manyLoads(c.even)
		b := &ByLoad{Load: load}
		b.Plan("name", all, owners, nil, nil)
		assert.LessOrEqual(t, b.Looked, c.most, "%v: %d moved", c.even, b.Moved.Len())
	}
}

func BenchmarkByLoad(b *testing.B) {
	for name, even := range map[string]bool{"even": true, "mixed-up": false} {
		b.Run(name, func(b *testing.B) {
			all, owners, load := manyLoads(even)
			for b.Loop() {
				(&ByLoad{Load: load}).Plan("name", all, owners, nil, nil)
			}
		})
	}
}
