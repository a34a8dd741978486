package shards

import (
	"time"
)

// Of workers with an ID a planner knows who came back, so their deaths count.
//
// A worker that comes after several with its ID have died young gets nothing for a while: for a TTL
// after the second death, and twice as long after each further one.
const (
	young      = 4 * time.Minute
	loopFor    = 10 * time.Minute // for how long a death counts
	maxPenalty = 5 * time.Minute
)

// A shard with which suspicious workers in a row have died, each less than two TTLs after it had got the
// shard, rests. One that keeps it for two TTLs shows that it is harmless.
const (
	suspicious   = 3
	minDeathRest = 30 * time.Second
	maxDeathRest = 10 * time.Minute
	diedFor      = time.Hour // for how long such a death counts
)

// A place is what a planner remembers of the workers that had an ID.
type place struct {
	deaths  int           // of young workers, each less than loopFor after the one before
	last    time.Time     // the last death, of whatever age
	penalty time.Duration // of the next one
	counted int64         // the lease of the last that was counted
}

// A tenure is since when a member has had a shard, and which member had it before.
type tenure struct {
	lease  int64
	since  time.Time
	left   int64 // the revision in which nobody had it any more; 0 if there is none
	before *tenure
}

// A death is the end of a member that did not leave, in a revision. rev is 0 if its keys are still there.
type death struct {
	lease, rev int64
	wish       Set
}

// came records that a member has come. One with the same ID that is still there has died.
func (p *Planner) came(now time.Time, lease int64, m *MemberState) {
	p.born[lease] = now
	if m.ID == "" {
		return
	}
	for old, state := range p.View.Members {
		if state.By == lease && state.ID == m.ID {
			p.bury(now, old, *state, 0)
		}
	}
	if at := p.places[m.ID]; at != nil && at.penalty > 0 && now.Sub(at.last) < loopFor {
		p.penalties[lease] = now.Add(at.penalty)
	}
}

// went records that a member has gone.
func (p *Planner) went(now time.Time, lease int64, old MemberState, rev int64) {
	if old.ID != "" && !old.Leaving {
		p.bury(now, lease, old, rev)
	}
	p.forget(lease)
}

// forget drops what is remembered of a member that has gone. What failed on it still counts for a shard
// that has not failed on two yet.
func (p *Planner) forget(lease int64) {
	delete(p.born, lease)
	delete(p.penalties, lease)
	for _, t := range p.troubles {
		if t.light || !t.on[lease] {
			delete(t.on, lease)
		}
	}
}

// bury counts the death of a worker, once.
func (p *Planner) bury(now time.Time, lease int64, m MemberState, rev int64) {
	at := p.places[m.ID]
	if at == nil {
		at = &place{}
		p.places[m.ID] = at
	}
	if at.counted == lease {
		return
	}
	at.counted = lease
	p.dead = append(p.dead, death{lease, rev, m.Wish})
	born, seen := p.born[lease]
	if !seen || now.Sub(born) >= young {
		at.deaths, at.penalty, at.last = 0, 0, now // its keys may end later, and are the same death
		return
	}
	if now.Sub(at.last) >= loopFor {
		at.deaths = 0
	}
	at.deaths++
	at.last, at.penalty = now, 0
	if at.deaths > 1 {
		at.penalty = min(p.TTL<<min(at.deaths-2, 10), maxPenalty)
	}
}

// endPenalties has planned what becomes free of its penalty, and forgets what was long ago.
func (p *Planner) endPenalties(now time.Time) {
	for lease, until := range p.penalties {
		if !now.Before(until) {
			delete(p.penalties, lease)
			if m := p.View.Members[lease]; m != nil && m.There {
				p.born[lease] = now
			}
			p.Changed(now)
		}
	}
	for id, at := range p.places {
		if now.Sub(at.last) >= loopFor+maxPenalty {
			delete(p.places, id)
		}
	}
}

// queueChanged learns from an event of the queue of shard i, which member first had before, who has it,
// and since when.
func (p *Planner) queueChanged(now time.Time, i int, first int64, rev int64) {
	at := p.took[i]
	switch is := p.View.first(i); {
	case is == first || i >= p.View.N:
	case is == 0:
		at.left = rev
		p.took[i] = at
	default:
		if at.left == 0 {
			at.left = rev
		}
		at.before = nil
		p.took[i] = tenure{lease: is, since: now, before: &at}
	}
}

// suspectAll suspects the shards with which workers have just died. Whole revisions are known by now.
func (p *Planner) suspectAll(now time.Time) {
	for _, d := range p.dead {
		for _, i := range p.lately(now, d) {
			p.suspect(now, i)
		}
	}
	p.dead = nil
}

// lately are the shards that a dead worker had got lately, and had when it died, or that it was to
// prepare for.
func (p *Planner) lately(now time.Time, d death) (all []int) {
	for i := range d.wish.All() {
		if at, took := p.took[i]; !took || at.lease != d.lease && (at.before == nil || at.before.lease != d.lease) {
			all = append(all, i)
		}
	}
	for i, at := range p.took {
		if at.lease != d.lease && at.before != nil {
			at = *at.before
		}
		if at.lease == d.lease && (at.left == 0 || at.left == d.rev) && now.Sub(at.since) < 2*p.TTL {
			all = append(all, i)
		}
	}
	return all
}

// suspect records that a worker has died with shard i.
func (p *Planner) suspect(now time.Time, i int) {
	t := p.troubles[i]
	if t == nil {
		t = &trouble{on: map[int64]bool{}}
		p.troubles[i] = t
	}
	t.deaths++
	t.last = now
	if t.deaths >= suspicious {
		t.deathRest = min(max(2*t.deathRest, minDeathRest), maxDeathRest)
		t.light, t.rests, t.until = true, true, now.Add(t.deathRest)
		p.Changed(now)
	}
}

// survived reports whether a worker shows that shard i, with which others died, is harmless.
func (p *Planner) survived(now time.Time, i int, t *trouble) bool {
	owner, at := p.View.first(i), p.took[i]
	since := at.since
	if at.lease != owner { // it has had the shard since before this planner began
		since = t.last
	}
	return t.deaths > 0 && owner != 0 && p.View.Members[owner].stays() && now.Sub(since) >= 2*p.TTL
}
