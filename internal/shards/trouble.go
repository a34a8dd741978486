package shards

import (
	"slices"
	"time"
)

// The bounds of the rest of a shard that has failed on several members. It doubles with each failure.
const (
	minRest = 2 * time.Second
	maxRest = time.Minute
)

// A trouble is what a planner remembers of a shard that has failed, for failedFor after its last
// failure.
type trouble struct {
	on    map[int64]bool // the members on which it failed; false if a member was sick
	last  time.Time      // the last failure
	light bool           // it has failed on two members that were not sick, so it fails wherever it is
	rests bool
	rest  time.Duration // how long the last rest is
	until time.Time     // when it ends
}

// memberChanged learns from the change of a member, which was old before, what has failed on it.
func (p *Planner) memberChanged(now time.Time, lease int64, old MemberState) {
	m := p.View.Members[lease]
	if m == nil || !m.There || !old.There { // what a member that comes cannot take did not fail now
		return
	}
	if m.Health != Well && old.Health == Well {
		for _, t := range p.troubles {
			if _, failed := t.on[lease]; failed && !t.light {
				t.on[lease] = false // it was not the shard that failed
			}
		}
	}
	sick := p.health(lease) != Well
	for i := range m.Cannot.Without(old.Cannot).Without(m.Spared).All() {
		p.failed(now, i, lease, sick)
	}
}

// failed records that shard i has failed on a member.
func (p *Planner) failed(now time.Time, i int, lease int64, sick bool) {
	t := p.troubles[i]
	if t == nil {
		t = &trouble{on: map[int64]bool{}}
		p.troubles[i] = t
	}
	if sick && t.light {
		return
	}
	t.last, t.on[lease] = now, t.on[lease] || !sick
	on := 0
	for _, counts := range t.on {
		if counts {
			on++
		}
	}
	if t.light = t.light || on > 1; t.light {
		t.rest = min(max(2*t.rest, minRest), maxRest)
		t.rests, t.until = true, now.Add(t.rest)
	}
}

// health is what a member's health is worth. If most of what failed on it fails elsewhere too, it is
// not the member that is sick.
func (p *Planner) health(lease int64) Health {
	is := p.View.Members[lease].Health
	if is == Well {
		return Well
	}
	light, others := 0, 0
	for _, t := range p.troubles {
		if _, failed := t.on[lease]; failed && t.light {
			light++
		} else if failed {
			others++
		}
	}
	if light > others {
		return Well
	}
	return is
}

// endTroubles forgets what was long ago, and has planned what does not rest any more.
func (p *Planner) endTroubles(now time.Time) {
	for i, t := range p.troubles {
		switch {
		case now.Sub(t.last) >= failedFor:
			delete(p.troubles, i)
			if t.light {
				p.Changed(now)
			}
		case t.rests && !now.Before(t.until):
			t.rests = false
			p.Changed(now)
		}
	}
}

// poison are the shards that fail wherever they are, and those of them that rest.
func (p *Planner) poison() (light, rest Set) {
	for i, t := range p.troubles {
		if t.light {
			light.Add(i)
			if t.rests {
				rest.Add(i)
			}
		}
	}
	return light, rest
}

// coarse is the precision with which a planner says when rests end, so that many that end at about the
// same time are one set.
const coarse = 5 * time.Second

// Said is what the planner's key has to say now. planned is what it said last.
func (p *Planner) Said(planned int64) Said {
	s := Said{Planned: max(planned, p.Planned())}
	for i, t := range p.troubles {
		if !t.light {
			continue
		}
		until := t.until.Truncate(coarse)
		if until.Before(t.until) {
			until = until.Add(coarse)
		}
		at, found := slices.BinarySearchFunc(s.Poison, until, func(p Poison, until time.Time) int { return p.Until.Compare(until) })
		if !found {
			s.Poison = slices.Insert(s.Poison, at, Poison{Until: until})
		}
		s.Poison[at].Shards.Add(i)
	}
	return s
}

// Remember begins with what an earlier planner said. Its clock may differ.
func (p *Planner) Remember(now time.Time, said Said) {
	for _, s := range said.Poison {
		left := min(max(s.Until.Sub(now), 0), maxRest)
		for i := range s.Shards.All() {
			p.troubles[i] = &trouble{on: map[int64]bool{}, last: now, light: true, rests: true, rest: max(left, minRest), until: now.Add(left)}
		}
	}
}

// Inherit takes over what an earlier Planner of the same term remembers.
func (p *Planner) Inherit(from *Planner) { p.troubles = from.troubles }
