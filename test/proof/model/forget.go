package model

import "slices"

// forget drops from s what cannot matter any more, so that states which differ in
// nothing else are one: there are fewer to walk.
func (s *state) forget(c Config) {
	r := c.Rules
	for i := range s.clients {
		if me := &s.clients[i]; me.pc == done || me.pc == dead {
			*me = client{pc: me.pc, attempt: me.attempt, alive: me.alive, valid: me.valid && me.pc == done}
		}
	}
	for k := key(1); int(k) <= maxKeys && !r.BlindDelete; k++ {
		if !s.clients[k.owner()].alive {
			s.inFlight[k], s.releases[k] = 0, late{} // refused whenever they arrive
		}
		if s.inFlight[k] > 0 {
			continue
		}
		s.cancel[k] = false // names are not used again
		if s.at(k) < 0 {
			s.releases[k] = late{}
		}
	}
	if !c.Exact {
		s.rank()
	}
}

// rank replaces revisions by their ranks: only their order matters.
func (s *state) rank() {
	revs := append(make([]uint8, 0, maxKeys+maxClients+2), 0, s.highest)
	revs = append(revs, s.created[:s.n]...)
	for i := range s.clients {
		revs = append(revs, s.clients[i].token)
	}
	slices.Sort(revs)
	revs = slices.Compact(revs)
	of := func(rev uint8) uint8 {
		at, _ := slices.BinarySearch(revs, rev)
		return uint8(at)
	}
	s.highest = of(s.highest)
	for i := range int(s.n) {
		s.created[i] = of(s.created[i])
	}
	for i := range s.clients {
		s.clients[i].token = of(s.clients[i].token)
	}
	s.rev = uint8(len(revs) - 1)
}
