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
