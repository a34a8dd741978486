package shards

import (
	"testing"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// rule: SH11
func TestAKeyOnACarrierIsTheMembersThatNamesIt(t *testing.T) {
	k, err := keys.NewShards("", "jobs")
	require.NoError(t, err)
	v := NewView(k, 2)
	rev := int64(0)
	put := func(key string, value []byte) {
		rev++
		v.Apply(Event{Key: key, Value: value, Create: rev, Mod: rev})
	}
	member := func(lease int64, carriers ...int64) {
		put(k.Member(2, lease), Member{Weight: 1, Carriers: carriers}.Encode())
	}
	put(keys.QueueKey{Lease: 7, N: 1}.In(k.Queue(0).Prefix), nil)
	put(keys.QueueKey{Lease: 1, N: 1}.In(k.Queue(1).Prefix), nil)
	assert.Zero(t, v.Owner(0), "nobody names it")
	member(1, 7)
	assert.EqualValues(t, 1, v.Owner(0))
	assert.EqualValues(t, 1, v.Owner(1))
	assert.True(t, v.In(0, 1))
	assert.False(t, v.In(0, 7))
	member(2, 7, 1) // absurd: another's carrier, and another's own lease
	assert.EqualValues(t, 2, v.Owner(0), "the last word counts")
	assert.EqualValues(t, 1, v.Owner(1), "a member's own lease is its own")
	member(1)
	assert.EqualValues(t, 2, v.Owner(0), "what a member no longer names, another still does")
	v.Apply(Event{Key: k.Member(2, 2), Deleted: true, Mod: 100})
	assert.Zero(t, v.Owner(0), "a member whose key is gone is gone with its carriers")
	assert.EqualValues(t, 1, v.Owner(1))
}
