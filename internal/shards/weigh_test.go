package shards

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// size is a fleet's, and with how many seeds it is tested.
type size struct{ n, k, seeds int }

// sizes are the fleets of a test: a small one every day.
func sizes() []size {
	if testscale.Proof() {
		return []size{{64, 8, 20}, {300, 10, 5}, {1000, 50, 2}}
	}
	return []size{{64, 8, 3}}
}

// firstSeed is the same every day, because what it is about is how many moves there are on average.
func firstSeed(t *testing.T) uint64 {
	if testscale.Proof() {
		return testscale.Seed(t)
	}
	return 1
}

// watched is what a test learns of a fleet while it runs.
type watched struct {
	*oracle
	f         *fleet
	high, far time.Time // since when a worker has been above 1.2, and above 1.3, as told
	forHigh   time.Duration
	forFar    time.Duration
}

// told is how high the highest worker is, as the planner knows it.
func (f *fleet) told() (worst float64) {
	s := f.p.situation(f.now)
	if s.loads == nil {
		return 0
	}
	b := ByLoad{Load: s.loads}
	b.begin("jobs", s.all, s.owners, s.light)
	b.level = b.levelOf()
	for _, m := range b.pool {
		worst = max(worst, b.ratio(m)/b.limit(m))
	}
	return worst
}

// watch begins to look at a fleet.
func (f *fleet) watch() *watched {
	f.moves, f.bytes, f.reports = 0, 0, 0
	return &watched{oracle: &oracle{owner: slices.Clone(f.owner)}, f: f}
}

// look is called after each step.
func (w *watched) look() {
	w.oracle.step(w.f)
	for _, c := range []struct {
		edge  float64
		since *time.Time
		most  *time.Duration
	}{{edgeUp, &w.high, &w.forHigh}, {atOnce, &w.far, &w.forFar}} {
		switch told := w.f.told(); {
		case told <= c.edge:
			*c.since = time.Time{}
		case c.since.IsZero():
			*c.since = w.f.now
		default:
			*c.most = max(*c.most, w.f.now.Sub(*c.since))
		}
	}
}

// changes are what may happen to the loads of a fleet that is even.
var changes = []struct {
	name string
	load func(f *fleet, base []float64) func(i int, at time.Duration) float64
}{
	{"one shard becomes hot", func(f *fleet, base []float64) func(int, time.Duration) float64 {
		hot := f.IntN(f.n)
		return func(i int, _ time.Duration) float64 {
			if i == hot {
				return 100
			}
			return base[i]
		}
	}},
	{"a third becomes three times as heavy", func(f *fleet, base []float64) func(int, time.Duration) float64 {
		return func(i int, _ time.Duration) float64 {
			if i%3 == 0 {
				return 3 * base[i]
			}
			return base[i]
		}
	}},
	{"all change", func(f *fleet, base []float64) func(int, time.Duration) float64 {
		other := zipf(f.Rand, f.n, 0.8)
		return func(i int, _ time.Duration) float64 { return other[i] }
	}},
}

// A worker that is far above its share, or somewhat above it for a TTL, as it is told, is relieved within
// 10 s, and the moves are few.
//
// rule: SH14
func TestAWorkerAboveItsShareIsRelieved(t *testing.T) {
	first := firstSeed(t)
	for _, ttl := range []time.Duration{3 * time.Second, 15 * time.Second} {
		for _, c := range changes {
			t.Run(fmt.Sprintf("%v, %s", ttl, c.name), func(t *testing.T) {
				moves, best := 0, 0
				for _, s := range sizes() {
					for seed := range uint64(s.seeds) {
						var base []float64
						f := newFleet(t, first+seed, s.n, s.k, ttl, func(i int, _ time.Duration) float64 { return base[i] })
						base = zipf(f.Rand, s.n, 0.8)
						f.noise = 0.2
						f.run(15 * time.Minute)
						w := f.watch()
						f.load = c.load(f, base)
						f.run(5*time.Minute, w.look)
						require.LessOrEqual(t, w.forFar, 10*time.Second, "above 1.3; %v, PAWL_SEED=%d", s, first)
						require.LessOrEqual(t, w.forHigh, ttl+10*time.Second, "above 1.2; %v, PAWL_SEED=%d", s, first)
						require.LessOrEqual(t, f.worst(), 1.25, "by the true loads; %v, PAWL_SEED=%d", s, first)
						moves, best = moves+f.moves, best+w.moves
					}
				}
				assert.LessOrEqual(t, float64(moves), 1.5*float64(best)+2, "moves; PAWL_SEED=%d", first)
				t.Logf("%d moves, %d of who knows all", moves, best)
			})
		}
	}
}

// Whoever plans by load leaves nobody above the inner band, unless shards are too coarse for that.
// rule: SH14
func TestAPlanByLoadLeavesNobodyFarAboveItsShare(t *testing.T) {
	first := firstSeed(t)
	for seed := range uint64(testscale.Of(200, 5000)) {
		f := newFleet(t, first+seed, 64, 8, 15*time.Second, nil)
		load := zipf(f.Rand, 64, 0.8)
		for i := range f.owner {
			f.owner[i] = f.IntN(8)
		}
		b := ByLoad{Load: load}
		f.owner = b.Plan("jobs", f.candidates(), f.owner, nil, nil)
		f.load = func(i int, _ time.Duration) float64 { return load[i] }
		require.LessOrEqual(t, f.worst(), 1.2, "PAWL_SEED=%d", first+seed)
	}
}

// rule: SH14
func TestNoiseMovesNothing(t *testing.T) {
	for _, s := range sizes() {
		f := newFleet(t, firstSeed(t), s.n, s.k, 15*time.Second, nil)
		base := zipf(f.Rand, s.n, 0.8)
		f.load = func(i int, _ time.Duration) float64 { return base[i] }
		f.noise = 0.2
		f.run(10 * time.Minute)
		w := f.watch()
		f.run(time.Hour)
		assert.Zero(t, w.f.moves, "%v", s)
		assert.LessOrEqual(t, float64(f.bytes)/(240*float64(s.k)), 20.0, "bytes a TTL and worker; %v", s)
	}
}

// A shard is expensive for its new owner at first. It is not moved on for that.
// rule: SH14
func TestColdCachesComeToRest(t *testing.T) {
	for _, c := range []struct {
		name string
		cold func(age time.Duration) float64
		most float64 // moves, in parts of those of who knows all
	}{
		{"three times as expensive for half a minute", func(age time.Duration) float64 { return 1 + 2*math.Exp(-age.Seconds()/30) }, 1.5},
		{"for five minutes", func(age time.Duration) float64 { return 1 + 2*math.Exp(-age.Seconds()/300) }, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			moves, best := 0, 0
			seed := firstSeed(t)
			for i := range uint64(testscale.Of(1, 20)) {
				var base []float64
				f := newFleet(t, seed+i, 64, 8, 15*time.Second, func(i int, _ time.Duration) float64 { return base[i] })
				base = zipf(f.Rand, 64, 0.8)
				f.noise, f.cold = 0.2, c.cold
				f.run(20 * time.Minute)
				w := f.watch()
				f.load = changes[0].load(f, base)
				f.run(30*time.Minute, w.look)
				moves, best = moves+f.moves, best+w.moves
				f.run(2 * time.Hour)
				f.moves = 0
				f.run(time.Hour)
				require.LessOrEqual(t, f.moves, 2, "at last; PAWL_SEED=%d", seed)
			}
			assert.LessOrEqual(t, float64(moves), c.most*float64(best)+2, "PAWL_SEED=%d", seed)
			t.Logf("%d moves, %d of who knows all", moves, best)
		})
	}
}

// A wave goes through the shards. The moves follow it, and are bounded.
// rule: SH14
func TestAWaveIsFollowed(t *testing.T) {
	seed := firstSeed(t)
	f := newFleet(t, seed, 64, 8, 15*time.Second, func(i int, at time.Duration) float64 {
		return 10 * (1 + 0.8*math.Sin(2*math.Pi*(at.Minutes()/60+float64(i)/64)))
	})
	f.noise = 0.2
	f.run(10 * time.Minute)
	w := f.watch()
	var above, steps int
	f.run(time.Hour, func() {
		w.look()
		if steps++; f.worst() > 1.35 {
			above++
		}
	})
	t.Logf("%d moves, %d of who knows all, %.3f of the time above 1.35", f.moves, w.moves, float64(above)/float64(steps))
	assert.LessOrEqual(t, float64(f.moves), 1.5*float64(w.moves), "PAWL_SEED=%d", seed)
	assert.Less(t, float64(above)/float64(steps), 0.06, "PAWL_SEED=%d", seed)
}

// zipfFleet is a fleet of Zipf's loads that is even, and whose loads are told.
func zipfFleet(t *testing.T, seed uint64, ttl time.Duration) (f *fleet, base []float64) {
	f = newFleet(t, seed, 64, 8, ttl, func(i int, _ time.Duration) float64 { return base[i] })
	base = zipf(f.Rand, 64, 0.8)
	f.noise = 0.2
	f.run(20 * ttl)
	f.moves = 0
	return f, base
}

// rule: SH14
func TestAWorkerThatJoinsGetsItsShareOfTheLoad(t *testing.T) {
	seed := firstSeed(t)
	f, base := zipfFleet(t, seed, 15*time.Second)
	f.join(1)
	f.run(10 * time.Second)
	assert.LessOrEqual(t, f.worst(), 1.25, "PAWL_SEED=%d", seed)
	assert.LessOrEqual(t, f.moves, 16, "PAWL_SEED=%d", seed)
	sum, all := 0.0, 0.0
	for i, owner := range f.owner {
		all += base[i]
		if owner == 8 {
			sum += base[i]
		}
	}
	assert.Greater(t, sum, 0.75*all/9, "PAWL_SEED=%d", seed)
}

// What a worker that died had is shared out by the loads that it had told.
// rule: SH14
func TestTheShardsOfADeadWorkerGoByTheirLoads(t *testing.T) {
	seed := firstSeed(t)
	f, _ := zipfFleet(t, seed, 15*time.Second)
	f.die(3)
	f.run(15*time.Second + 5*time.Second)
	assert.NotContains(t, f.owner, 3)
	assert.NotContains(t, f.owner, Nobody)
	assert.LessOrEqual(t, f.worst(), 1.25, "PAWL_SEED=%d", seed)
	assert.LessOrEqual(t, f.moves, 12, "of those of others; PAWL_SEED=%d", seed)
}

// A planner that has just begun does not know what has moved lately, so it waits for four TTLs.
// rule: SH14
func TestANewPlannerWaits(t *testing.T) {
	f, base := zipfFleet(t, firstSeed(t), 15*time.Second)
	f.p = NewPlanner(f.p.View, "jobs", f.ttl, time.Second, f.now)
	f.run(2 * time.Second)
	f.moves = 0
	f.load = changes[0].load(f, base)
	f.run(57 * time.Second)
	assert.Zero(t, f.moves)
	f.run(5 * time.Second)
	assert.NotZero(t, f.moves)
	assert.LessOrEqual(t, f.told(), 1.2)
}

// What a worker tells of a shard that it has just got is not believed for four TTLs. Until then the shard
// weighs what was told before.
// rule: SH14
func TestANewOwnerIsNotBelieved(t *testing.T) {
	p := newTroubled(t, 2)
	told := func(lease int64, load float64) {
		p.member(lease, Member{Weight: 1, Loads: Loads{By: map[int]float64{5: load, 6: 1}}.Encode()})
	}
	p.queue(5, 1)
	p.now = p.now.Add(4 * p.TTL)
	told(1, 10)
	assert.InDelta(t, 10, p.loads(p.now)[5], 0.3)
	p.leave(5, 1)
	assert.InDelta(t, 10, p.loads(p.now)[5], 0.3)
	assert.InDelta(t, 10, p.loads(p.now)[7], 0.3, "of others nothing is known, so they count as the mean")
	p.queue(5, 2)
	p.now = p.now.Add(4*p.TTL - 1)
	told(2, 70)
	assert.InDelta(t, 10, p.loads(p.now)[5], 0.3)
	p.now = p.now.Add(1)
	assert.InDelta(t, 70, p.loads(p.now)[5], 2)
	told(1, 30)
	assert.InDelta(t, 70, p.loads(p.now)[5], 2, "it is not the owner's")
	p.member(2, Member{Weight: 1})
	assert.Equal(t, 1.0, p.loads(p.now)[5], "it tells nothing any more, and nothing else is known")
	p.member(1, Member{Weight: 1})
	assert.Nil(t, p.loads(p.now))
}

// If nobody tells loads, a planner does nothing about them.
// rule: SH14
func TestWithoutLoadsThereIsNothingToWeigh(t *testing.T) {
	p := newTroubled(t, 3)
	p.pass(time.Minute)
	assert.Zero(t, p.nextAt)
	p.member(1, Member{Weight: 1, Loads: Loads{By: map[int]float64{5: 1}}.Encode()})
	assert.False(t, p.nextAt.IsZero())
	p.member(1, Member{Weight: 1})
	p.pass(time.Minute)
	assert.Zero(t, p.nextAt, "nor when they have stopped")
}

// A move that does not end holds nothing up for longer than a TTL.
// rule: SH14
func TestAMoveThatHangsDoesNotStopTheOthers(t *testing.T) {
	f, base := zipfFleet(t, firstSeed(t), 15*time.Second)
	f.event(f.queueKey(7, (f.owner[7]+1)%8), nil, false) // waits in vain
	f.run(time.Second)
	f.load = changes[0].load(f, base)
	f.run(13 * time.Second)
	before := f.moves
	f.run(20 * time.Second)
	assert.Zero(t, before)
	assert.NotZero(t, f.moves)
}

// Most of what a plan for loads alone moves stays where it is for four TTLs, and plans come more and more
// seldom.
// rule: SH14
func TestPlansForLoadsAloneBecomeSeldom(t *testing.T) {
	seed := firstSeed(t)
	f, _ := zipfFleet(t, seed, 15*time.Second)
	f.noise = 0
	f.load = func(i int, at time.Duration) float64 { // two take turns, each minute
		if i%8 == int(at.Minutes())%8 {
			return 100
		}
		return 10
	}
	plans := 0
	var last time.Time
	f.run(20*time.Minute, func() {
		if f.p.evenedAt != last {
			last = f.p.evenedAt
			plans++
		}
	})
	assert.LessOrEqual(t, plans, 11, "PAWL_SEED=%d", seed)
	assert.Equal(t, maxLoadWait, f.p.pause, "PAWL_SEED=%d", seed)
}

// A worker between 1.2 and 1.3 of its share is left as it is for a TTL, and then it is relieved.
// rule: SH14
func TestAWorkerThatIsSomewhatAboveItsShareIsLeftForATTL(t *testing.T) {
	f := newFleet(t, 1, 64, 8, 15*time.Second, func(int, time.Duration) float64 { return 1 })
	f.run(10 * time.Minute)
	require.Zero(t, f.moves)
	high := f.owner[0]
	f.load = func(i int, _ time.Duration) float64 {
		if f.owner[i] == high && f.since[i].Before(f.began.Add(time.Minute)) {
			return 1.35
		}
		return 1
	}
	var since time.Time
	f.run(3*time.Minute, func() {
		if since.IsZero() && f.told() > edgeUp {
			since = f.now
		}
		if !since.IsZero() && f.now.Sub(since) < f.ttl {
			assert.Zero(t, f.moves)
		}
	})
	assert.NotZero(t, f.moves)
	assert.LessOrEqual(t, f.told(), up)
}

// A planner that begins where reports are old already heeds them.
// rule: SH14
func TestANewPlannerHeedsWhatWasToldBefore(t *testing.T) {
	p := newTroubled(t, 2)
	even := map[int]float64{}
	hot := 0
	for lease, m := range p.View.Members {
		for i := range m.Wish.All() {
			p.queue(i, lease)
			even[i] = 1
			if lease == 1 {
				hot = i
			}
		}
	}
	p.member(2, Member{Weight: 1, Loads: Loads{By: even}.Encode()})
	even[hot] = 9
	p.member(1, Member{Weight: 1, Loads: Loads{By: even}.Encode()})
	p.Planner = NewPlanner(p.View, "jobs", p.TTL, time.Second, p.now)
	p.first, p.last = time.Time{}, time.Time{} // members are planned for
	p.pass(coolFor*p.TTL - time.Second)
	assert.Equal(t, 6, p.wished(1))
	p.pass(p.TTL)
	assert.Less(t, p.wished(1), 6)
}
