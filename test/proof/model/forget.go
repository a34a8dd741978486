package model

import "slices"

// forget drops from s what can no longer matter, so that states which differ in nothing else
// become one, and fewer are walked.
func (s *state) forget(c Config) {
	r := c.Rules
	for i := range c.Clients {
		if me := &s.clients[i]; me.pc == done || me.pc == dead {
			*me = client{pc: me.pc, nth: me.nth, old: me.old, used: me.used, number: me.number}
		}
	}
	if c.Reuse {
		s.forgetPast(c)
	}
	for k := key(1); int(k) <= len(c.Clients)*maxAcquisitions && !r.BlindDelete && !c.Reuse; k++ {
		if !s.sessions[c.session(k)].alive {
			s.inFlight[k], s.takes[k], s.releases[k] = 0, 0, late{} // refused whenever they arrive
		}
		if s.inFlight[k] != 0 {
			continue
		}
		s.cancel[k] = false // names are not used again
		if queued := s.queues[0].at(k) >= 0 || s.queues[1].at(k) >= 0; !queued {
			if !r.TakeTwice {
				s.takes[k] = 0
			}
			if s.slotOf(k) < 0 && s.takes[k] == 0 {
				s.releases[k] = late{}
			}
		}
	}
	if !c.Exact {
		s.rank(c)
	}
}

// rank replaces revisions by their ranks: only their order matters.
func (s *state) rank(c Config) {
	var refs [2*maxKeys + 2*maxClients + 2*maxNames + 2*maxSlots + 2 + perKey*(maxKeys+1) + perClient*maxClients]*uint8
	all := refs[:0]
	for n := range c.namesUsed() {
		q := &s.queues[n]
		for i := range int(q.n) {
			all = append(all, &q.created[i])
		}
		all = append(all, &s.tokens[n].exclusive, &s.tokens[n].any)
	}
	for i := range s.slots {
		all = append(all, &s.slots[i].created, &s.permits[i])
	}
	for i := range c.Clients {
		all = append(all, &s.clients[i].token, &s.clients[i].old)
	}
	all = append(all, &s.storage.exclusive, &s.storage.any)
	if c.Reuse {
		all = s.revisions(all)
	}
	var values [len(refs) + 1]uint8 // the first is 0, which stays
	revs := values[:1]
	for _, rev := range all {
		if *rev != 0 && !slices.Contains(revs, *rev) {
			revs = append(revs, *rev)
		}
	}
	slices.Sort(revs)
	for _, rev := range all {
		if *rev != 0 {
			at, _ := slices.BinarySearch(revs, *rev)
			*rev = uint8(at)
		}
	}
	s.rev = uint8(len(revs) - 1)
}

// namesUsed is how many names any client wants.
func (c Config) namesUsed() int {
	for _, cl := range c.Clients {
		for _, w := range cl.Wants {
			if w[1] != Not {
				return 2
			}
		}
	}
	return 1
}
