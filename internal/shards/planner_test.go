package shards

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The answer to a write of an earlier plan comes after the last plan left the wish as it was before the
// write. The next plan takes the written wish into account.
// rule: SH3
func TestALateWishOfAnEarlierPlanIsPlannedWith(t *testing.T) {
	k, err := keys.NewShards("", "name")
	require.NoError(t, err)
	const ttl, settle = 10 * time.Second, time.Second
	now := time.Unix(1_000_000, 0)
	p := NewPlanner(NewView(k, 1), "name", ttl, settle, now)
	put := func(rev int64, key, value string) {
		p.Apply(now, Event{Key: key, Value: []byte(value), Create: rev, Mod: rev})
	}
	tick := func() []Write {
		now = now.Add(settle)
		planned, _ := p.Tick(now)
		require.True(t, planned)
		return p.Writes()
	}
	put(1, k.Member(1, 1), `{"weight":1}`)
	put(2, k.Wish(1), "")
	early := tick()
	require.Equal(t, []Write{{1, SetOf(0), 2}}, early)

	put(3, k.Member(1, 2), `{"weight":1}`)
	put(4, k.Wish(2), "")
	put(5, keys.QueueKey{Lease: 2, N: 1}.In(k.Queue(0).Prefix), "")
	require.Equal(t, []Write{{2, SetOf(0), 4}}, tick(), "the first has no wish, as far as is known")

	p.Wrote(now, early[0], 6)
	assert.Zero(t, p.Planned())
	assert.Equal(t, []Write{{2, SetOf(0), 4}, {1, nil, 6}}, tick())
}

// plannerOf is a planner of so many shards, and members that each have a wish of all of them.
func plannerOf(t *testing.T, shards int, members ...int64) (p *Planner, at func(rev int64, i int, lease int64), now time.Time) {
	k, err := keys.NewShards("", "name")
	require.NoError(t, err)
	now = time.Unix(1_000_000, 0)
	p = NewPlanner(NewView(k, shards), "name", 10*time.Second, time.Second, now)
	var all Set
	for i := range shards {
		all.Add(i)
	}
	for _, lease := range members {
		p.Apply(now, Event{Key: k.Member(shards, lease), Value: []byte(`{"weight":1}`), Create: lease, Mod: lease})
		p.Apply(now, Event{Key: k.Wish(lease), Value: all.Encode(), Create: 100 + lease, Mod: 100 + lease})
	}
	return p, func(rev int64, i int, lease int64) {
		p.Apply(now, Event{Key: keys.QueueKey{Lease: lease, N: rev}.In(k.Queue(i).Prefix), Create: rev, Mod: rev})
	}, now
}

// A member that queues for one shard of its wish after the other is not full, however long it takes.
// rule: SH3
func TestAMemberThatMakesProgressIsNotFull(t *testing.T) {
	p, queues, now := plannerOf(t, 4, 1)
	for i := range 4 {
		for range 3 {
			p.watchOver(now)
			assert.Empty(t, p.full, "after %d shards", i)
			now = now.Add(3 * time.Second) // of a TTL of 10
		}
		queues(200+int64(i), i, 1)
	}
	p.watchOver(now)
	assert.Empty(t, p.lags)
}

// Of two members whose wishes have a shard that nobody queues for, the one whose wish was put last owns it.
// rule: SH3
func TestOfTwoWishesTheLatestCounts(t *testing.T) {
	p, _, _ := plannerOf(t, 1, 1, 2)
	assert.Equal(t, []int{1}, p.owners(map[int64]int{1: 0, 2: 1}, nil))
	p.View.Members[1].WishMod = 300
	assert.Equal(t, []int{0}, p.owners(map[int64]int{1: 0, 2: 1}, nil))
}
