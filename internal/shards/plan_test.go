package shards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func of(weights ...int) (all []Candidate) {
	for i, w := range weights {
		all = append(all, Candidate{Lease: int64(i + 1), Weight: w})
	}
	return all
}

func unowned(n int) []int { return slices.Repeat([]int{Nobody}, n) }

// loads are how many shards each of k members has, and, as the last element, how many have no owner.
func loads(k int, owners []int) []int {
	out := make([]int, k+1)
	for _, m := range owners {
		if m == Nobody {
			m = k
		}
		out[m]++
	}
	return out
}

func moves(from, to []int) (n int) {
	for i := range from {
		if from[i] != Nobody && from[i] != to[i] {
			n++
		}
	}
	return n
}

func TestLoadsAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []Candidate
		n    int
		want []int // loads, those of equal weight sorted
	}{
		{"one shard, one worker", of(1), 1, []int{1, 0}},
		{"one shard, three workers", of(1, 1, 1), 1, []int{0, 0, 1, 0}},
		{"more workers than shards", of(1, 1, 1, 1, 1), 3, []int{0, 0, 1, 1, 1, 0}},
		{"nobody", nil, 3, []int{3}},
		{"all weights negative", of(-1, -5), 3, []int{0, 0, 3}},
		{"some weights negative", of(-1, 1, 1), 4, []int{0, 2, 2, 0}},
		{"one of weight 100", of(1, 1, 100), 102, []int{1, 1, 100, 0}},
		{"one of weight 100, few shards", of(1, 1, 100), 3, []int{0, 0, 3, 0}},
		{"weights 1, 2, 3", of(1, 2, 3), 64, []int{11, 21, 32, 0}}, // 10.67, 21.33, 32
		{"the greatest", of(MaxWeight, MaxWeight), 100_000, []int{50_000, 50_000, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := loads(len(c.all), Plan("name", c.all, unowned(c.n), nil, nil))
			if c.all != nil && c.all[0].Weight == c.all[len(c.all)-1].Weight {
				slices.Sort(got[:len(c.all)])
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAMemberThatIsFixedKeepsWhatItHas(t *testing.T) {
	all := of(1, 1, 1)
	all[0].Fixed = true
	owners := append([]int{0, 0}, unowned(7)...)
	got := Plan("name", all, owners, nil, nil)
	assert.Equal(t, []int{0, 0}, got[:2])
	assert.Equal(t, 2, loads(3, got)[0])
	assert.InDelta(t, 3.5, loads(3, got)[1], 0.5)
	all[1].Weight, all[2].Weight = -1, -1
	assert.Equal(t, []int{2, 0, 0, 7}, loads(3, Plan("name", all, owners, nil, nil)), "nobody can take the rest")
}

func TestWhatAMemberCannotTakeGoesElsewhere(t *testing.T) {
	all := of(1, 1)
	all[0].Cannot = SetOf(0, 1)
	got := Plan("name", all, []int{0, 0, 1, 1}, nil, nil)
	assert.Equal(t, []int{1, 1, 0, 0}, got, "and what it can take makes up for that")
	all[1].Cannot = SetOf(0)
	got = Plan("name", all, unowned(4), nil, nil)
	assert.Equal(t, Nobody, got[0], "nobody can take it")
	assert.Equal(t, 1, got[1])
	all[0].Cannot, all[1].Cannot = SetOf(0, 1, 2, 3), nil
	assert.Equal(t, []int{1, 1, 1, 1}, Plan("name", all, unowned(4), nil, nil), "one may exceed its share where nobody else can")
}

func TestTheOddShardsOfManyNamesAreSpread(t *testing.T) {
	count := make([]int, 8)
	for i := range 4000 {
		count[Plan(fmt.Sprint("name ", i), of(1, 1, 1, 1, 1, 1, 1, 1), unowned(1), nil, nil)[0]]++
	}
	for _, c := range count {
		assert.InDelta(t, 500, c, 120)
	}
}

func TestThePlanDoesNotDependOnTheOrderOfItsArguments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		all, owners := random(r)
		want := Plan("name", all, owners, nil, nil)
		perm := r.Perm(len(all))
		mixed, back := make([]Candidate, len(all)), map[int]int{Nobody: Nobody}
		for to, from := range perm {
			mixed[to], back[from] = all[from], to
		}
		renamed := make([]int, len(owners))
		for i, m := range owners {
			renamed[i] = back[m]
		}
		got := Plan("name", mixed, renamed, nil, nil)
		for i, m := range want {
			require.Equal(t, back[m], got[i])
		}
	}
}

// random returns some members, and owners of some shards.
func random(r *rand.Rand) (all []Candidate, owners []int) {
	k, n := 1+r.IntN(6), 1+r.IntN(30)
	for m := range k {
		c := Candidate{Lease: int64(m + 1), Weight: 1}
		if r.IntN(3) == 0 {
			c.Weight = []int{-1, 1, 2, 3, 100}[r.IntN(5)]
		}
		all = append(all, c)
	}
	for range n {
		owners = append(owners, r.IntN(k+1)-1)
	}
	return all, owners
}

// Loads are within one of the shares, every shard has an owner, and no assignment with such loads moves
// less. What a member has above its share rounded up has to go, and no more than that, unless another
// member's share that is rounded up would otherwise not be filled.
func TestAPlanIsBalancedAndMovesTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		all, owners := random(r)
		got := Plan("name", all, owners, nil, nil)
		checkBalance(t, all, got)
		require.Equal(t, leastMoves(all, owners), moves(owners, got), "%v %v: %v", all, owners, got)
		require.Equal(t, got, Plan("name", all, got, nil, nil), "it is stable")
	}
}

func checkBalance(t *testing.T, all []Candidate, got []int) {
	t.Helper()
	weights := 0
	for _, c := range all {
		weights += max(c.Weight, 0)
	}
	l := loads(len(all), got)
	if weights == 0 {
		require.Equal(t, len(got), l[len(all)])
		return
	}
	require.Zero(t, l[len(all)])
	for m, c := range all {
		share := float64(len(got)*max(c.Weight, 0)) / float64(weights)
		require.Less(t, float64(l[m]), share+1)
		require.Greater(t, float64(l[m]), share-1)
	}
}

// leastMoves tries every choice of who has its share rounded up.
func leastMoves(all []Candidate, owners []int) int {
	weights, n := 0, len(owners)
	for _, c := range all {
		weights += max(c.Weight, 0)
	}
	has := loads(len(all), owners)
	least := n + 1
	for choice := range 1 << len(all) {
		sum, moved, ok := 0, 0, true
		for m, c := range all {
			w := max(c.Weight, 0)
			quota := 0
			if weights > 0 {
				quota = n * w / weights
			}
			if choice>>m&1 != 0 {
				ok = ok && weights > 0 && n*w%weights != 0
				quota++
			}
			sum += quota
			moved += max(has[m]-quota, 0)
		}
		if ok && (sum == n || weights == 0) {
			least = min(least, moved)
		}
	}
	return least
}

// No member gets a shard that it cannot take, and each shard that some member can take has an owner.
func TestNobodyIsGivenWhatItCannotTake(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		all, owners := random(r)
		for m := range all {
			for i := range owners {
				if r.IntN(3) == 0 {
					all[m].Cannot.Add(i)
				}
			}
			all[m].Fixed = r.IntN(8) == 0
		}
		got := Plan("name", all, owners, nil, nil)
		for i, m := range got {
			if m != Nobody {
				require.False(t, all[m].Cannot.Has(i))
				continue
			}
			for _, c := range all {
				require.True(t, c.Weight < 1 || c.Fixed || c.Cannot.Has(i), "shard %d of %v", i, all)
			}
		}
	}
}

// A few exceptions do not unbalance the rest.
func TestAFewThatCannotBeTakenLeaveLoadsBalanced(t *testing.T) {
	all := of(slices.Repeat([]int{1}, 8)...)
	for m := range all {
		all[m].Cannot = SetOf(0, 1, 2, 3, 60+m/4)
	}
	all[5].Cannot = nil
	got := Plan("name", all, unowned(64), nil, nil)
	checkBalance(t, all, got)
	assert.Equal(t, []int{5, 5, 5, 5}, got[:4])
}

func TestTenThousandShardsOfTwoHundredWorkers(t *testing.T) {
	all := of(slices.Repeat([]int{1}, 200)...)
	owners := Plan("name", all, unowned(10_000), nil, nil)
	checkBalance(t, all, owners)
	joined := append(slices.Clone(all), Candidate{Lease: 1000, Weight: 1})
	got := Plan("name", joined, owners, nil, nil)
	checkBalance(t, joined, got)
	assert.Equal(t, 49, moves(owners, got), "10,000 of 201 are 49.75")
	for i, m := range owners {
		if m == 199 {
			owners[i] = Nobody
		}
	}
	got = Plan("name", all[:199], owners, nil, nil)
	checkBalance(t, all[:199], got)
	assert.Zero(t, moves(owners, got), "a death moves what it had, and no more")
}

// Only one member can take anything, or each can take what few others can.
func TestALargePlanWithManyExceptionsIsMadeSoon(t *testing.T) {
	const n, k = 10_000, 200
	all := of(slices.Repeat([]int{1}, k)...)
	var everything Set
	for i := range n {
		everything.Add(i)
	}
	for m := range k - 1 {
		all[m].Cannot = everything
	}
	assert.Equal(t, slices.Repeat([]int{k - 1}, n), Plan("name", all, unowned(n), nil, nil))
	for m := range k {
		all[m].Cannot = everything.Clone()
		for i := range n {
			if d := (i%k - m + k) % k; d < 3 {
				all[m].Cannot.Remove(i)
			}
		}
	}
	checkBalance(t, all, Plan("name", all, unowned(n), nil, nil))
}

func BenchmarkPlan(b *testing.B) {
	all := of(slices.Repeat([]int{1}, 200)...)
	owners := Plan("name", all, unowned(10_000), nil, nil)
	joined := append(slices.Clone(all), Candidate{Lease: 1000, Weight: 1})
	for b.Loop() {
		Plan("name", joined, owners, nil, nil)
	}
}
