package session

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// members are to be told apart, and nothing else.
var memberA, memberB, memberC, onlyMember = new(cluster.Member), new(cluster.Member), new(cluster.Member), new(cluster.Member)

// other is where renewals go that m confirmed last.
func other(m *cluster.Member) *cluster.Member {
	return map[*cluster.Member]*cluster.Member{nil: memberA, memberA: memberB, memberB: memberC, memberC: memberA, onlyMember: onlyMember}[m]
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestABatchIsSentATwentiethOfTheTTLBeforeTheFirstIsDue(t *testing.T) {
	var b batcher
	assert.Zero(t, b.next())
	at := func(due, ttl time.Duration) *candidate {
		c := &candidate{due: noon.Add(due), ttl: ttl, keys: 1}
		b.add(c)
		return c
	}
	first := at(20*time.Second, 20*time.Second)
	soon := at(20900*time.Millisecond, 20*time.Second) // its tenth begins before
	later := at(22500*time.Millisecond, 20*time.Second)
	short := at(20500*time.Millisecond, 4*time.Second)
	long := at(40*time.Second, 300*time.Second)
	missed := at(18*time.Second, 300*time.Second)
	b.remove(missed)
	assert.Equal(t, noon.Add(19*time.Second), b.next())

	assert.Equal(t, []*candidate{first, soon, long}, b.take(b.next()), "the first due first")
	assert.Equal(t, noon.Add(20300*time.Millisecond), b.next())
	assert.Empty(t, b.take(noon.Add(20*time.Second)), "too soon for all that wait")
	assert.Equal(t, []*candidate{later}, b.take(noon.Add(20600*time.Millisecond)), "what is due is made alone")
	assert.Equal(t, idle, short.state)
	assert.Zero(t, b.next())
	b.remove(later)
	assert.Equal(t, sent, later.state, "it cannot be taken out any more")
}

// As when a stall has just ended: a batch would have no time for its answers, and cost its other
// sessions theirs.
func TestARenewalThatIsDueTooSoonIsInNoBatch(t *testing.T) {
	var b batcher
	soon := &candidate{due: noon.Add(499 * time.Millisecond), ttl: 20 * time.Second, keys: 1}
	inTime := &candidate{due: noon.Add(500 * time.Millisecond), ttl: 20 * time.Second, keys: 1}
	b.add(soon)
	b.add(inTime)
	assert.Equal(t, []*candidate{inTime}, b.take(noon))
	assert.Equal(t, idle, soon.state)
	assert.Empty(t, b.waiting)
}

func TestBatchesAreOfOneMemberAndWithinTheirBounds(t *testing.T) {
	of := func(last *cluster.Member, n, keys int) (all []*candidate) {
		for range n {
			all = append(all, &candidate{last: last, keys: keys, state: sent})
		}
		return all
	}
	type got struct {
		to *cluster.Member
		n  int
	}
	for name, at := range map[string]struct {
		all  []*candidate
		b    batcher
		want []got
	}{
		"none":                                 {},
		"one is none":                          {all: of(nil, 1, 1)},
		"two":                                  {all: of(nil, 2, 1), want: []got{{memberA, 2}}},
		"not to who confirmed last":            {all: append(of(memberA, 3, 1), of(memberB, 2, 1)...), want: []got{{memberB, 3}, {memberC, 2}}},
		"one each":                             {all: append(of(memberA, 1, 1), of(memberB, 1, 1)...)},
		"two of whom go to one":                {all: append(of(memberC, 1, 1), of(memberB, 1, 1)...), want: []got{{memberA, 2}}},
		"the only member":                      {all: of(onlyMember, 3, 1), want: []got{{onlyMember, 3}}},
		"more than a read holds":               {all: of(nil, 300, 1), want: []got{{memberA, 128}, {memberA, 128}, {memberA, 44}}},
		"the last alone":                       {all: of(nil, 129, 1), want: []got{{memberA, 128}}},
		"more keys than a read holds":          {all: of(nil, 100, 3), want: []got{{memberA, 42}, {memberA, 42}, {memberA, 16}}},
		"as many keys as may be":               {all: of(nil, 10, maxBatchKeys), want: []got{{memberA, 8}, {memberA, 2}}},
		"too many keys":                        {all: append(of(nil, 3, maxBatchKeys+1), of(nil, 2, 1)...), want: []got{{memberA, 2}}},
		"a server that reads few keys":         {all: of(nil, 10, 2), b: batcher{maxOps: 8}, want: []got{{memberA, 4}, {memberA, 4}, {memberA, 2}}},
		"a member that answers few in time":    {all: of(nil, 10, 1), b: batcher{fit: map[*cluster.Member]int{memberA: 4}}, want: []got{{memberA, 4}, {memberA, 4}, {memberA, 2}}},
		"another member that answers few":      {all: of(nil, 10, 1), b: batcher{fit: map[*cluster.Member]int{memberB: 4}}, want: []got{{memberA, 10}}},
		"a server that reads next to nothing":  {all: of(nil, 4, 2), b: batcher{maxOps: 2}},
		"one that reads the session keys only": {all: of(nil, 4, 1), b: batcher{maxOps: 2}, want: []got{{memberA, 2}, {memberA, 2}}},
	} {
		var have []got
		in := map[*candidate]bool{}
		for _, batch := range at.b.split(at.all, other) {
			have = append(have, got{batch.member, len(batch.candidates)})
			for _, c := range batch.candidates {
				require.False(t, in[c], "%s: in one batch only", name)
				in[c] = true
			}
		}
		assert.Equal(t, at.want, have, name)
		for _, c := range at.all {
			assert.Equal(t, in[c], c.state == sent, "%s: sent if in a batch", name)
		}
	}
}

// A member that is not the leader forwards renewals one after the other, so fewer
// are sent to it where they were not answered in time.
func TestAMemberThatAnswersFewInTimeGetsFewerUntilItAnswersAll(t *testing.T) {
	var b batcher
	b.answered(memberA, 100, 100)
	assert.Equal(t, 128, b.fits(memberA))
	b.answered(memberA, 40, 100)
	assert.Equal(t, 40, b.fits(memberA))
	assert.Equal(t, 128, b.fits(memberB))
	b.answered(memberA, 0, 40)
	assert.Equal(t, 40, b.fits(memberA), "a member that is silent")
	b.answered(memberA, 30, 30)
	assert.Equal(t, 40, b.fits(memberA), "it was not tried")
	b.answered(memberA, 40, 40)
	assert.Equal(t, 80, b.fits(memberA))
	b.answered(memberA, 80, 80)
	assert.Equal(t, 128, b.fits(memberA))
	b.answered(memberA, 1, 128)
	assert.Equal(t, minBatch, b.fits(memberA))

	assert.Equal(t, 128, b.ops())
	b.refused(100)
	assert.Equal(t, 50, b.ops())
	for range 8 {
		b.refused(100) // others that were under way with it
	}
	assert.Equal(t, 50, b.ops())
	b.refused(50)
	assert.Equal(t, 25, b.ops())
	for range 10 {
		b.refused(b.ops())
	}
	assert.Equal(t, minBatch, b.ops())
}

func FuzzBatches(f *testing.F) {
	f.Add(uint64(1), 10)
	f.Add(uint64(2), 1000)
	f.Fuzz(func(t *testing.T, seed uint64, n int) {
		if n < 0 || n > 2000 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		b := batcher{maxOps: rng.IntN(3) * 60}
		members := []*cluster.Member{nil, memberA, memberB, memberC}
		var all []*candidate
		for range n {
			c := &candidate{ttl: time.Duration(3+rng.IntN(297)) * time.Second, last: members[rng.IntN(4)], keys: 1 + rng.IntN(20)}
			c.due = noon.Add(time.Duration(rng.Int64N(int64(75 * time.Second))))
			all = append(all, c)
		}
		inBatch := map[*candidate]bool{}
		for now := noon; now.Before(noon.Add(80 * time.Second)); now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Second)))) {
			for _, c := range all {
				switch {
				case c.state == idle && !inBatch[c] && rng.IntN(3) == 0 && c.due.After(now):
					b.add(c)
				case rng.IntN(20) == 0:
					b.remove(c)
				}
			}
			next := b.next()
			taken := b.take(now)
			if !next.IsZero() && !next.After(now) && len(b.waiting) > 0 {
				require.True(t, b.next().After(now), "what was to be sent has gone")
			}
			for _, c := range taken {
				require.True(t, c.due.After(now) && !c.earliest().After(now))
			}
			b.answered(members[1+rng.IntN(3)], rng.IntN(100), 100)
			for _, batch := range b.split(taken, other) {
				keys := 0
				for _, c := range batch.candidates {
					keys += c.keys
					require.False(t, inBatch[c], "in two batches")
					inBatch[c] = true
					require.Equal(t, sent, c.state)
					require.False(t, batch.member == c.last, "to who confirmed it last")
					require.LessOrEqual(t, c.keys, maxBatchKeys)
				}
				require.LessOrEqual(t, keys, b.ops())
				require.GreaterOrEqual(t, len(batch.candidates), minBatch)
				require.LessOrEqual(t, len(batch.candidates), b.fits(batch.member))
				require.True(t, batch.due().After(now))
			}
			for i, c := range b.waiting {
				require.Equal(t, i, c.at)
				require.Equal(t, waiting, c.state)
			}
			for _, c := range all {
				require.Equal(t, inBatch[c], c.state == sent)
			}
		}
	})
}
