package keys

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func shardsOf(t *testing.T, name string) Shards {
	t.Helper()
	s, err := NewShards("ns/", name)
	require.NoError(t, err)
	return s
}

func TestTheKeysOfShardsAreThoseThatTheyParseAs(t *testing.T) {
	s := shardsOf(t, "jobs/eu")
	assert.Equal(t, "ns///pawl/shard//jobs%2Feu/", s.Prefix)
	own := QueueKey{Lease: 0x7f3a, N: 12}
	for key, want := range map[string]ShardsKey{
		own.In(s.Queue(0).Prefix):      {Kind: ShardsQueue, Shard: 0, Lease: 0x7f3a},
		own.In(s.Queue(99_999).Prefix): {Kind: ShardsQueue, Shard: 99_999, Lease: 0x7f3a},
		own.In(s.Planner().Prefix):     {Kind: ShardsPlanner, Lease: 0x7f3a},
		s.Member(64, 0x7f3a):           {Kind: ShardsMember, N: 64, Lease: 0x7f3a},
		s.Wish(0x7f3a):                 {Kind: ShardsWish, Lease: 0x7f3a},
		s.Prefix + "3/foreign":         {Kind: ShardsQueue, Shard: 3},
		s.Prefix + "3/a/7f3a-12":       {Kind: ShardsQueue, Shard: 3},
		s.Prefix + "p/foreign":         {Kind: ShardsPlanner},
		s.Prefix + "100000/7f3a-12":    {},
		s.Prefix + "03/7f3a-12":        {},
		s.Prefix + "-1/7f3a-12":        {},
		s.Prefix + "3":                 {},
		s.Prefix + "m/064/7f3a":        {},
		s.Prefix + "m/64":              {},
		s.Prefix + "m/100001/7f3a":     {},
		s.Prefix + "w/07":              {},
		"ns/jobs/7f3a-12":              {},
	} {
		assert.Equal(t, want, s.Parse(key), key)
	}
	assert.Equal(t, "//pawl/shard//jobs%2Feu/7", s.Queue(7).Name)
	assert.True(t, OfShards(s.Queue(7).Prefix))
	assert.False(t, OfShards(SessionKey("ns/", 1)))
}

// Each range contains the keys of one kind and no other.
// rule: SH1
func TestTheRangesOfShardsHoldOneKindEach(t *testing.T) {
	s := shardsOf(t, "jobs")
	in := func(key string, from, to []byte) bool { return string(from) <= key && key < string(to) }
	own := QueueKey{Lease: 1, N: 1}
	keys := []string{
		own.In(s.Queue(0).Prefix), own.In(s.Queue(9).Prefix), own.In(s.Queue(10_000).Prefix), own.In(s.Planner().Prefix), s.Wish(1),
		s.Member(6, 1), s.Member(60, 1), s.Member(64, 1), s.Member(640, 1), s.Member(7, 1),
	}
	for _, key := range keys {
		k := s.Parse(key)
		from, to := s.Queues()
		assert.Equal(t, k.Kind == ShardsQueue, in(key, from, to), key)
		from, to = s.Members()
		assert.Equal(t, k.Kind == ShardsMember, in(key, from, to), key)
		others := s.MembersBut(64)
		below, above := others[0], others[1]
		other := in(key, below[0], below[1]) || in(key, above[0], above[1])
		assert.Equal(t, k.Kind == ShardsMember && k.N != 64, other, key)
	}
}

// The shards of a name do not lie among those of another, and no lock has the name of a shard.
// rule: SH1
func TestShardsOfDifferentNamesAreDisjoint(t *testing.T) {
	names := []string{"a", "a/0", "a/m", "a%2F0", "/a", "/", "a/", "0", "m", "w", "p", "//pawl/shard"}
	var all []string
	for _, name := range names {
		all = append(all, shardsOf(t, name).Prefix)
	}
	for i, prefix := range all {
		for _, key := range []string{"0/1-1", "m/6/1", "w/1", "p/1-1"} {
			s, ok := ParseShards("ns/", prefix+key)
			assert.True(t, ok)
			assert.Equal(t, names[i], s.Name)
		}
	}
	for _, key := range []string{"ns/a/1-1", "ns///pawl/shard/", "ns///pawl/shard/a", "ns///pawl/shard//a", "ns///pawl/shard//a/0/1-1", "ns///pawl/7f3a"} {
		_, ok := ParseShards("ns/", key)
		assert.False(t, ok, key)
	}
	for i, a := range all {
		for j, b := range all {
			assert.Equal(t, i == j, strings.HasPrefix(a, b), "%q and %q", names[i], names[j])
		}
	}
	assert.Equal(t, len(all), len(slices.Compact(slices.Sorted(slices.Values(all)))))
	for _, etcdLayout := range []bool{false, true} {
		_, err := NewQueue("ns/", shardsOf(t, "a").Queue(0).Name, etcdLayout)
		assert.ErrorContains(t, err, "shard")
	}
}

func TestANameTooLongForItsShardsIsRefused(t *testing.T) {
	longest := MaxName - len("//pawl/shard/") - len("/99999")
	s := shardsOf(t, strings.Repeat("a", longest))
	assert.Len(t, s.Queue(MaxShards-1).Name, MaxName)
	_, err := NewShards("", strings.Repeat("a", longest+1))
	assert.ErrorContains(t, err, "1 too many")
	_, err = NewShards("", "")
	assert.Error(t, err)
}
