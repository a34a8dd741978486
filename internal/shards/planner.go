package shards

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Planner decides which shards each member's wish has, and when the wishes change (rule SH3). The
// caller feeds it everything that is stored of the name, starting with a read, and makes the writes
// that it asks for. What it remembers of failures is in its key (Said), for the planner after it.
type Planner struct {
	View   *View
	Name   string
	TTL    time.Duration // of the members' sessions
	Settle time.Duration // how long after the last change a plan is made
	Bound  time.Duration // how long after the first change a plan is made at the latest

	first, last time.Time     // of the changes that are not planned for; zero if there are none
	pending     map[int64]Set // the wishes that are not written yet
	planned     int64         // the revision that the last plan was made of
	lags        map[int64]lag // members that do not follow their wish
	full        map[int64]time.Time
	watchAt     time.Time // when to look for lags next
	looked      int       // how often that has looked at a shard
	memory
}

// lag is how long a member has not followed its wish.
type lag struct {
	since   time.Time
	wishMod int64
	missing int
}

// fullFor is for how many TTLs a member counts as full after it has not followed its wish for one TTL.
const fullFor = 4

// watchEach is how often in a TTL a planner looks for members that do not follow their wish.
const watchEach = 8

// settles is how many times Settle after the first change the plan is made at the latest.
const settles = 5

// NewPlanner makes a Planner that begins at now.
func NewPlanner(v *View, name string, ttl, settle time.Duration, now time.Time) *Planner {
	p := &Planner{
		View: v, Name: name, TTL: ttl, Settle: settle, Bound: settles * settle,
		first: now, last: now, lags: map[int64]lag{}, full: map[int64]time.Time{}, memory: newMemory(),
	}
	if p.began = now; p.tells() {
		p.nextAt = now
	}
	return p
}

// Changed records a change that the next plan has to take into account.
func (p *Planner) Changed(now time.Time) {
	if p.first.IsZero() {
		p.first = now
	}
	p.last = now
}

// Apply processes an event, and returns whether it was a reason to plan.
func (p *Planner) Apply(now time.Time, e Event) Reason {
	k := p.View.keys.Parse(e.Key)
	before, first := p.View.before(k.Lease), p.View.first(k.Shard)
	r := p.View.Apply(e)
	switch k.Kind {
	case keys.ShardsMember:
		p.memberChanged(now, k.Lease, before, e.Mod)
	case keys.ShardsQueue:
		p.queueChanged(now, k.Shard, first, e.Mod)
	}
	if r&WishChanged != 0 {
		wish, pending := p.pending[k.Lease]
		delete(p.pending, k.Lease)
		if m := p.View.Members[k.Lease]; pending && m != nil && m.WishMod != 0 && m.Wish.Equal(wish) {
			r &^= WishChanged // this planner's write, whose answer was late
		}
	}
	if r != 0 {
		p.Changed(now)
	}
	return r
}

// due is when the next plan is made, or zero if there is nothing to plan for.
func (p *Planner) due() time.Time {
	if p.first.IsZero() {
		return time.Time{}
	}
	if settled, bound := p.last.Add(p.Settle), p.first.Add(p.Bound); settled.Before(bound) {
		return settled
	} else {
		return bound
	}
}

// Wake is when to call Tick at the latest.
func (p *Planner) Wake(now time.Time) time.Time {
	wake := now.Add(p.TTL / 4)
	next := p.due()
	if next.IsZero() {
		next = p.nextAt // which waits for a plan that is due
	}
	for _, at := range []time.Time{p.memory.wake(), next} {
		if !at.IsZero() && at.Before(wake) {
			wake = at
		}
	}
	return wake
}

// Waiting is since when a change has waited for a plan, or zero if none does.
func (p *Planner) Waiting() time.Time { return p.first }

// Planned is the revision up to which everything is planned and written, or 0 if something is not.
func (p *Planner) Planned() int64 {
	if !p.first.IsZero() || len(p.pending) > 0 {
		return 0
	}
	return p.planned
}

// Tick checks for members that do not follow their wishes, and plans if it is time to, or if the loads
// are uneven. It returns whether it planned, and how long the first change had waited for that.
func (p *Planner) Tick(now time.Time) (planned bool, waited time.Duration) {
	p.watchOver(now)
	p.suspectAll(now)
	p.endTroubles(now)
	p.endPenalties(now)
	if due := p.due(); !due.IsZero() {
		if now.Before(due) {
			return false, 0
		}
		waited = now.Sub(p.first)
		p.plan(now)
		return true, waited
	}
	return p.weigh(now), 0
}

// watchOver begins to count as full the members that have not followed their wish for a TTL, and ends
// that in time.
func (p *Planner) watchOver(now time.Time) {
	for lease, until := range p.full {
		if !now.Before(until) {
			delete(p.full, lease)
			p.Changed(now)
		}
	}
	if now.Before(p.watchAt) {
		return // to look at all shards at each event would take the square of their number
	}
	p.watchAt = now.Add(p.TTL / watchEach)
	for lease, m := range p.View.Members {
		missing := p.missing(lease, m)
		old := p.lags[lease]
		switch {
		case missing == 0:
			delete(p.lags, lease)
		case old.since.IsZero() || old.wishMod != m.WishMod || missing < old.missing:
			p.lags[lease] = lag{now, m.WishMod, missing}
		case now.Sub(old.since) >= p.TTL:
			delete(p.lags, lease)
			p.full[lease] = now.Add(fullFor * p.TTL)
			p.Changed(now)
		}
	}
	maps.DeleteFunc(p.lags, func(lease int64, _ lag) bool { return p.View.Members[lease] == nil })
}

// missing is how many shards in a member's wish it neither queues for nor prepares.
func (p *Planner) missing(lease int64, m *MemberState) (n int) {
	if !m.active() || !p.full[lease].IsZero() {
		return 0
	}
	for i := range m.Wish.But(m.Coming, m.Cannot) {
		if p.looked++; !p.View.In(i, lease) {
			n++
		}
	}
	return n
}

// plan computes all wishes.
func (p *Planner) plan(now time.Time) {
	s := p.situation(now)
	if s.loads == nil {
		p.wish(s, Plan(p.Name, s.all, s.owners, s.light, s.rest))
		return
	}
	b := ByLoad{Load: s.loads}
	p.wish(s, b.Plan(p.Name, s.all, s.owners, s.light, s.rest))
}

// wish computes which wishes are not written yet, according to a plan.
func (p *Planner) wish(s situation, to []int) {
	p.first, p.last = time.Time{}, time.Time{}
	p.planned = p.View.Rev
	wishes := make([]Set, len(s.all))
	for i, m := range to {
		if m != Nobody {
			wishes[m].Add(i)
		}
	}
	p.pending = map[int64]Set{}
	for m, lease := range s.leases {
		state := p.View.Members[lease]
		if (state.active() || state.By != 0) && state.WishMod != 0 && !state.Wish.Equal(wishes[m]) {
			p.pending[lease] = wishes[m]
		}
	}
}

// situation is what a plan is made of.
type situation struct {
	leases      []int64 // of all members
	all         []Candidate
	owners      []int
	light, rest Set
	loads       []float64 // of each shard; nil if no member tells any
}

func (p *Planner) situation(now time.Time) (s situation) {
	s.leases = slices.Sorted(maps.Keys(p.View.Members))
	index := make(map[int64]int, len(s.leases))
	s.all = make([]Candidate, len(s.leases))
	unfit := p.View.unfit(p.health)
	s.light, s.rest = p.poison()
	for m, lease := range s.leases {
		state := p.View.Members[lease]
		index[lease] = m
		s.all[m] = Candidate{Lease: lease, Weight: state.Weight, Cannot: state.Cannot, Fixed: !p.full[lease].IsZero()}
		switch is := unfit[lease]; {
		case !state.active() || is == Sick:
			s.all[m].Weight = min(s.all[m].Weight, 0)
		case is == Trial:
			s.all[m].Most = 1
		}
	}
	s.owners = p.owners(index, s.rest)
	s.loads = p.loads(now)
	return s
}

// owners are the present owners, by their index. The owner of a shard is as its queue shows, or else
// the member whose wish has the shard, unless it rests. If several wishes have it, the latest counts.
func (p *Planner) owners(index map[int64]int, rest Set) []int {
	owners := slices.Repeat([]int{Nobody}, p.View.N)
	for i := range owners {
		if lease := p.View.Owner(i); lease != 0 && (!rest.Has(i) || p.View.In(i, lease)) {
			owners[i] = index[lease]
		}
	}
	wished := slices.SortedFunc(maps.Keys(index), func(a, b int64) int {
		return cmp.Compare(p.View.Members[b].WishMod, p.View.Members[a].WishMod)
	})
	for _, lease := range wished {
		m := p.View.Members[lease]
		if !m.active() || !p.full[lease].IsZero() {
			continue
		}
		for i := range m.Wish.All() {
			if owners[i] == Nobody && !m.Cannot.Has(i) && !rest.Has(i) {
				owners[i] = index[lease]
			}
		}
	}
	return owners
}

// A Write is a wish to put, if the wish key has modification revision Mod.
type Write struct {
	Lease int64
	Wish  Set
	Mod   int64
}

// Writes are the wishes to put. Those that gain come first, so that their members wait already when the
// others learn what they lose.
func (p *Planner) Writes() (all []Write) {
	for lease, wish := range p.pending {
		all = append(all, Write{lease, wish, p.View.Members[lease].WishMod})
	}
	slices.SortFunc(all, func(a, b Write) int {
		return cmp.Or(cmp.Compare(p.lost(a), p.lost(b)), cmp.Compare(a.Lease, b.Lease))
	})
	return all
}

// lost is how many shards w takes away.
func (p *Planner) lost(w Write) (n int) {
	for i := range p.View.Members[w.Lease].Wish.All() {
		if !w.Wish.Has(i) {
			n++
		}
	}
	return n
}

// Wrote records that w was put at revision rev. If rev is 0, w was refused because the key had changed,
// and the next plan takes its present value into account. w may be of an earlier plan. The wish of the
// last plan is then still to be put. If that plan left the wish as it was before w, the next plan takes
// into account what w has written.
func (p *Planner) Wrote(now time.Time, w Write, rev int64) {
	m := p.View.Members[w.Lease]
	switch {
	case rev == 0:
		delete(p.pending, w.Lease)
		p.Changed(now)
	case m != nil && m.WishMod < rev:
		m.Wish, m.WishMod = w.Wish, rev
		switch wish, pending := p.pending[w.Lease]; {
		case !pending:
			p.Changed(now)
		case wish.Equal(w.Wish):
			delete(p.pending, w.Lease)
		}
	}
}
