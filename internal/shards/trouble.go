package shards

import (
	"bytes"
	"time"
)

// The bounds of the rest of a shard that has failed on several members. It doubles with each failure.
const (
	minRest = 2 * time.Second
	maxRest = time.Minute
)

// A trouble is what a planner remembers of a shard that has failed, for failedFor after its last
// failure, or diedFor after a worker died with it.
type trouble struct {
	on    map[int64]bool // the members on which it failed; false if a member was sick
	last  time.Time      // the last failure
	light bool           // it has failed on two members that were not sick, so it fails wherever it is
	rests bool
	rest  time.Duration // how long the last rest is
	until time.Time     // when it ends

	deaths    int           // how many workers in a row died soon after they had got it
	deathRest time.Duration // how long the last rest for that is
}

// memberChanged learns from the change of a member, which was old before, what has failed on it.
func (p *Planner) memberChanged(now time.Time, lease int64, old MemberState, rev int64) {
	m := p.View.Members[lease]
	switch there := m != nil && m.There; {
	case there && !old.There:
		p.came(now, lease, m)
		return // what it cannot take did not fail now
	case !there && old.There:
		p.went(now, lease, old, rev)
		fallthrough
	case !there:
		return
	}
	if !bytes.Equal(m.Loads, old.Loads) {
		p.reported(now)
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
	if _, held := p.penalties[lease]; held {
		return Sick
	}
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
		case t.deaths == 0 && now.Sub(t.last) >= failedFor, now.Sub(t.last) >= diedFor, p.survived(now, i, t):
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
