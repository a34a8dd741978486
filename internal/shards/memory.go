package shards

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// memory is what a planner remembers of failures, deaths and loads.
type memory struct {
	troubles  map[int]*trouble
	took      map[int]tenure      // the owner of each shard that has had another owner
	dead      []death             // the workers that have just died
	born      map[int64]time.Time // when the members came, as far as the planner saw that
	places    map[string]*place   // by ID
	penalties map[int64]time.Time // the members that get nothing before that time
	weighing
}

func newMemory() memory {
	return memory{troubles: map[int]*trouble{}, took: map[int]tenure{},
		born: map[int64]time.Time{}, places: map[string]*place{}, penalties: map[int64]time.Time{}, weighing: newWeighing()}
}

// wake is when something that is remembered ends, or zero.
func (m *memory) wake() (at time.Time) {
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, t := range m.troubles {
		if t.rests {
			sooner(t.until)
		}
	}
	for _, until := range m.penalties {
		sooner(until)
	}
	return at
}

// Inherit takes over what an earlier Planner of the same term remembers.
func (p *Planner) Inherit(from *Planner) {
	p.memory = from.memory
	for lease := range p.born {
		if m := p.View.Members[lease]; m == nil || !m.There { // it has gone meanwhile
			p.forget(lease)
		}
	}
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
		rest := Poison{Until: until, Deaths: t.deaths > 0}
		at, found := slices.BinarySearchFunc(s.Poison, rest, comparePoison)
		if !found {
			s.Poison = slices.Insert(s.Poison, at, rest)
		}
		s.Poison[at].Shards.Add(i)
	}
	for _, lease := range slices.Sorted(maps.Keys(p.penalties)) {
		s.Held = append(s.Held, Penalty{lease, p.penalties[lease].Truncate(time.Second)})
	}
	for _, lease := range slices.Sorted(maps.Keys(p.View.Members)) {
		if by := p.View.Members[lease].By; by != 0 {
			s.Doubles = append(s.Doubles, Double{lease, by})
		}
	}
	return s
}

// comparePoison orders Poison by Until, and then those that only fail before those that kill.
func comparePoison(a, b Poison) int {
	kills := func(p Poison) int {
		if p.Deaths {
			return 1
		}
		return 0
	}
	return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(kills(a), kills(b)))
}

// Remember begins with what an earlier planner said. Its clock may differ.
func (p *Planner) Remember(now time.Time, said Said) {
	for _, s := range said.Poison {
		most := maxRest
		if s.Deaths {
			most = maxDeathRest
		}
		left := min(max(s.Until.Sub(now), 0), most)
		for i := range s.Shards.All() {
			t := &trouble{on: map[int64]bool{}, last: now, light: true, rests: true, rest: max(left, minRest), until: now.Add(left)}
			if s.Deaths {
				t.deaths, t.rest, t.deathRest = suspicious, minRest, max(left, minDeathRest)
			}
			p.troubles[i] = t
		}
	}
	for _, h := range said.Held {
		p.penalties[h.Lease] = now.Add(min(max(h.Until.Sub(now), 0), maxPenalty))
	}
}
