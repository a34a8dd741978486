package shards

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// troubled is a planner of 12 shards and some members, which are its leases from 1.
type troubled struct {
	*Planner
	t    *testing.T
	keys keys.Shards
	now  time.Time
	rev  int64
}

func newTroubled(t *testing.T, members int) *troubled {
	k, err := keys.NewShards("", "jobs")
	assert.NoError(t, err)
	p := &troubled{t: t, keys: k, now: time.Unix(1_000_000, 0)}
	p.Planner = NewPlanner(NewView(k, 12), "jobs", 10*time.Second, time.Second, p.now)
	for i := range members {
		p.member(int64(i+1), Member{Weight: 1})
		p.rev++
		p.Apply(p.now, Event{Key: k.Wish(int64(i + 1)), Create: p.rev, Mod: p.rev})
	}
	p.pass(2 * time.Second)
	return p
}

// member writes a member key.
func (p *troubled) member(lease int64, m Member) {
	p.rev++
	p.Apply(p.now, Event{Key: p.keys.Member(12, lease), Value: m.Encode(), Create: lease, Mod: p.rev})
}

// pass lets time pass, and writes all wishes.
func (p *troubled) pass(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(time.Second) {
		p.Tick(p.now)
		for _, w := range p.Writes() {
			p.rev++
			p.Wrote(p.now, w, p.rev)
		}
	}
}

// queue and leave put a member's key into the queue of a shard, and delete it.
func (p *troubled) queue(i int, lease int64) {
	p.rev++
	p.Apply(p.now, Event{Key: keys.QueueKey{Lease: lease, N: 1}.In(p.keys.Queue(i).Prefix), Create: p.rev, Mod: p.rev})
}

func (p *troubled) leave(i int, lease int64) {
	p.rev++
	p.Apply(p.now, Event{Key: keys.QueueKey{Lease: lease, N: 1}.In(p.keys.Queue(i).Prefix), Deleted: true, Mod: p.rev})
}

// wished is how many shards a member is wished.
func (p *troubled) wished(lease int64) int { return p.View.Members[lease].Wish.Len() }

// rule: SH9
func TestWorkersAreSickOnlyIfAtMostHalfAre(t *testing.T) {
	p := newTroubled(t, 4)
	p.member(1, Member{Weight: 1, Health: Sick})
	p.member(2, Member{Weight: 1, Health: Trial})
	p.pass(2 * time.Second)
	assert.Zero(t, p.wished(1))
	assert.Equal(t, 1, p.wished(2))
	assert.Equal(t, 11, p.wished(3)+p.wished(4))
	p.member(3, Member{Weight: 1, Health: Sick})
	p.pass(2 * time.Second)
	for lease := range int64(4) {
		assert.Equal(t, 3, p.wished(lease+1))
	}
}

// rule: SH10
func TestAMemberWithPoisonIsNotSick(t *testing.T) {
	p := newTroubled(t, 4)
	p.member(1, Member{Weight: 1, Cannot: SetOf(0, 1, 2)})
	p.member(2, Member{Weight: 1, Cannot: SetOf(0, 1, 2)})
	p.member(1, Member{Weight: 1, Cannot: SetOf(0, 1, 2), Health: Sick})
	p.pass(2 * time.Second)
	assert.InDelta(t, 2, p.wished(1), 1, "a quarter of what does not fail")
	p.member(1, Member{Weight: 1, Cannot: SetOf(0, 1, 2, 4, 5, 6), Health: Sick})
	p.pass(2 * time.Second)
	assert.Zero(t, p.wished(1), "what failed on it alone are as many")
}

// rule: SH10
func TestWhatFailedOnASickMemberIsNoPoison(t *testing.T) {
	p := newTroubled(t, 4)
	p.member(1, Member{Weight: 1, Cannot: SetOf(0, 1, 2), Health: Sick})
	p.member(2, Member{Weight: 1, Cannot: SetOf(0)})
	assert.Empty(t, p.Said(0).Poison, "it was sick when it said so")
	p.member(3, Member{Weight: 1, Cannot: SetOf(4)})
	p.member(3, Member{Weight: 1, Cannot: SetOf(4, 5, 6), Health: Sick})
	p.member(2, Member{Weight: 1, Cannot: SetOf(0, 4)})
	assert.Empty(t, p.Said(0).Poison, "it was about to be")
	p.member(4, Member{Weight: 1, Cannot: SetOf(0), Spared: SetOf(0)})
	assert.Empty(t, p.Said(0).Poison, "it has not failed")
	p.member(4, Member{Weight: 1, Cannot: SetOf(4)})
	assert.Equal(t, SetOf(4), p.Said(0).AllPoison().trimmed())
}

// rule: SH10
func TestWhatAMemberCannotTakeWhenItComesHasNotFailedNow(t *testing.T) {
	p := newTroubled(t, 2)
	p.member(1, Member{Weight: 1, Cannot: SetOf(0)})
	p.member(3, Member{Weight: 1, Cannot: SetOf(0)})
	assert.Empty(t, p.Said(0).Poison)
}

// rule: SH10
func TestWhatAPlannerSaysIsWhatTheNextOneRemembers(t *testing.T) {
	p := newTroubled(t, 3)
	for _, i := range []int{3, 7} {
		p.member(1, Member{Weight: 1, Cannot: SetOf(i)})
		p.member(2, Member{Weight: 1, Cannot: SetOf(i)})
		p.pass(20 * time.Second)
	}
	said := p.Said(5)
	assert.Equal(t, said.Planned, max(5, p.Planned()))
	assert.Equal(t, SetOf(3, 7), said.AllPoison())
	again := DecodeSaid(12, said.Encode())
	assert.Equal(t, said, again)
	next := newTroubled(t, 3)
	next.Remember(next.now, again)
	next.pass(2 * time.Second)
	assert.Equal(t, said.AllPoison(), next.Said(0).AllPoison())
	next.pass(failedFor)
	assert.Empty(t, next.Said(0).Poison, "it has not failed for long enough")
	assert.Equal(t, Said{}, DecodeSaid(12, []byte("?")))
	assert.Equal(t, Said{Planned: 3}, DecodeSaid(12, []byte(`{"planned":3,"poison":[{"until":1,"shards":"PTk5"}]}`)), "no such shard")
}

// hold puts a key of a member in the queue of a shard.
func (p *troubled) hold(i int, lease int64) string {
	p.rev++
	key := keys.QueueKey{Lease: lease, N: p.rev}.In(p.keys.Queue(i).Prefix)
	p.Apply(p.now, Event{Key: key, Create: p.rev, Mod: p.rev})
	return key
}

// die removes the keys of a member at one revision.
func (p *troubled) die(lease int64, held ...string) {
	p.rev++
	for _, key := range append(held, p.keys.Wish(lease), p.keys.Member(12, lease)) {
		p.Apply(p.now, Event{Key: key, Deleted: true, Mod: p.rev})
	}
}

// rule: SH13
func TestAShardThatAWorkerKeepsIsHarmless(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		p := newTroubled(t, 1)
		for lease := int64(11); lease < 14; lease++ {
			p.member(lease, Member{Weight: 1, ID: "a"})
			key := p.hold(3, lease)
			p.pass(5 * time.Second)
			p.die(lease, key)
			p.pass(time.Second)
			if keeps && lease == 12 {
				p.hold(3, 1)
				p.pass(2*p.TTL + time.Second)
			}
		}
		assert.Equal(t, !keeps, p.Said(0).AllPoison().Has(3), "keeps %v", keeps)
		p.pass(minDeathRest)
		key := p.hold(3, 1)
		p.pass(p.TTL)
		assert.Equal(t, !keeps, p.Said(0).AllPoison().Has(3))
		p.pass(2 * p.TTL)
		assert.Empty(t, p.Said(0).Poison, "it runs")
		assert.NotEmpty(t, key)
	}
}

// rule: SH13
func TestDeathsOfWorkersWithoutAnIDAreNotCounted(t *testing.T) {
	p := newTroubled(t, 1)
	for lease := int64(11); lease < 19; lease++ {
		p.member(lease, Member{Weight: 1})
		key := p.hold(3, lease)
		p.pass(5 * time.Second)
		p.die(lease, key)
		p.pass(time.Second)
	}
	assert.Equal(t, Said{Planned: p.Planned()}, p.Said(0))
}

// rule: SH10
func TestWhatIsRememberedDoesNotGrowWithTheWorkersThatHaveGone(t *testing.T) {
	p := newTroubled(t, 4)
	for lease := int64(100); lease < 200; lease++ {
		p.member(lease, Member{Weight: 1, ID: fmt.Sprint(lease)})
		p.member(lease, Member{Weight: 1, ID: fmt.Sprint(lease), Cannot: SetOf(0)})
		p.die(lease)
		p.pass(time.Minute)
	}
	assert.Equal(t, SetOf(0), p.Said(0).AllPoison().trimmed())
	assert.LessOrEqual(t, len(p.troubles[0].on), 4)
	assert.LessOrEqual(t, len(p.places), 20, "those of a quarter of an hour")
	p.Remember(p.now, Said{Held: []Penalty{{Lease: 200, Until: p.now.Add(time.Minute)}}})
	p.pass(2 * time.Minute)
	assert.Len(t, p.born, 4)
	next := newTroubled(t, 2) // two have gone while its watch was interrupted
	next.Inherit(p.Planner)
	assert.Len(t, next.born, 2)
}

// A worker that comes back within the TTL has died, and the end of its lease later is the same death.
// rule: SH13
func TestADeathOfAnOldWorkerCountsOnceForItsShard(t *testing.T) {
	p := newTroubled(t, 2)
	p.member(10, Member{Weight: 1, ID: "a"})
	p.pass(young + time.Second)
	key := p.hold(5, 10)
	p.member(11, Member{Weight: 1, ID: "a"})
	p.pass(5 * time.Second)
	require.Contains(t, p.troubles, 5)
	assert.Equal(t, 1, p.troubles[5].deaths)
	p.die(10, key)
	p.pass(2 * time.Second)
	assert.Equal(t, 1, p.troubles[5].deaths)
}
