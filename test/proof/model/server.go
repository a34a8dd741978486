package model

// This file has the effect of transactions on the server's state.

// remove deletes k in the queue of name n, if it exists.
func (s *state) remove(k key, n int) {
	if at := s.queues[n].at(k); at >= 0 {
		s.queues[n].remove(at)
		s.past[k].came, s.handoffs[k] = false, handoff{}
	}
}

// removeSlot deletes k's key in slot i, if it exists.
func (s *state) removeSlot(k key, i int) {
	if s.slots[i].of == k {
		s.slots[i] = slot{}
	}
}

// expire deletes all keys on a lease.
func (s *state) expire(c Config, of int) {
	for k := key(1); int(k) <= len(c.Clients)*maxAcquisitions; k++ {
		if c.session(k) != of {
			continue
		}
		for n := range s.queues {
			s.remove(k, n)
		}
		for i := range s.slots {
			s.removeSlot(k, i)
		}
		s.cancel[k] = false
	}
}

// slotOf is the slot of k, or -1.
func (s *state) slotOf(k key) int {
	for i := range s.slots {
		if s.slots[i].of == k {
			return i
		}
	}
	return -1
}

// predecessor is the last key in the queue of name n that bars k and was created before rev.
func (s *state) predecessor(c Config, k key, n int, rev uint8) key {
	q := &s.queues[n]
	for i := int(q.n) - 1; i >= 0; i-- {
		if f := q.line[i]; f != k && q.created[i] < rev && c.bars(f, k, n) {
			return f
		}
	}
	return 0
}

// successors are the keys behind k in the queue of name n that can receive handoffs.
func (s *state) successors(c Config, k key, n int) (h successors) {
	q := &s.queues[n]
	for i, to := q.at(k)+1, 0; i < int(q.n) && to < len(h) && c.handsOff(q.line[i]); i, to = i+1, to+1 {
		h[to] = q.line[i]
	}
	return h
}

// handOff puts a handoff by k on the first of h, if that exists. In code it also has to be the key that h was read from,
// which is not needed: a waiter that came again behind others does not wait for k (A2).
func (s *state) handOff(k key, h successors) {
	next := h[0]
	if next == 0 {
		return
	}
	for n := range s.queues {
		if s.queues[n].at(next) >= 0 {
			s.handoffs[next] = handoff{k, h.rest()}
			return
		}
	}
}

// mayEnqueue is the comparison of an enqueue of k. It holds if neither its keys nor its cancel key
// exist, and the session is unchanged.
func (c Config) mayEnqueue(s *state, k key) bool {
	if !s.sessions[c.session(k)].alive || s.cancel[k] && !c.Rules.NoCancelKey {
		return false
	}
	parts := s.inFlight[k]
	for n := range s.queues {
		if parts.has(n) && s.queues[n].at(k) >= 0 {
			return false
		}
	}
	return true
}

// enqueue puts k's keys, and answers with the keys that bar them.
func (c Config) enqueue(s *state, k key, ok bool) {
	i := k.owner()
	me := &s.clients[i]
	parts := s.inFlight[k]
	if c.Rules.EnqueueInParts {
		parts &= -parts // the first
	}
	s.inFlight[k] &^= parts
	got := answer{there: s.inFlight[k] == 0, ok: ok}
	if ok {
		for n := range s.queues {
			if parts.has(n) {
				s.queues[n].add(k, s.rev)
			}
		}
		for n := range s.queues {
			if c.names(k).has(n) {
				got.pred[n] = s.before(c, k, n)
			}
		}
	}
	if me.pc == enqueuing && k == c.key(s, i) && !me.got.there {
		me.got, me.sure = got, ok && c.Reuse && (!me.copied || c.Rules.CopyIsAnswered)
		if ok {
			me.token = s.rev
		}
	}
}

// before is what an enqueue reads of name n after its put: the last key that bars it, including one
// of the same revision, or the last one around its session's keys.
func (s *state) before(c Config, k key, n int) key {
	q := &s.queues[n]
	at := q.at(k)
	if at < 0 {
		return 0
	}
	for i := at - 1; i >= 0; i-- {
		f := q.line[i]
		if s.clients[k.owner()].around && c.session(f) == c.session(k) {
			continue
		}
		if c.bars(f, k, n) {
			return f
		}
	}
	return 0
}

// release deletes k if it was created at rev, in all its queues or in its slot, and hands off
// to h. A rev of 0 matches any. It returns whether there was such a key in a queue.
func (c Config) release(s *state, k key, rev uint8, h successors) (found bool) {
	for n := range s.queues {
		if at := s.queues[n].at(k); at >= 0 && (rev == 0 || rev == s.queues[n].created[at]) {
			found = true
			s.past[k].was = 0
			if c.Restores > 0 {
				s.past[k].was = s.queues[n].created[at]
			}
			s.remove(k, n)
		}
	}
	for i := range s.slots {
		if s.slots[i].of == k && (rev == 0 || rev == s.slots[i].created) {
			s.slots[i] = slot{}
		}
	}
	if found {
		s.handOff(k, h)
	}
	return found
}

// inPart reports whether some keys of a set exist and some do not. A release deletes all or none
// (ML5).
func (c Config) inPart(s *state, k key) bool {
	var there names
	for n := range s.queues {
		if s.queues[n].at(k) >= 0 {
			there |= 1 << n
		}
	}
	return there != 0 && there != c.names(k)
}

// undo removes every key that k may have, now or later. Only an enqueue that was never answered
// needs a cancel key.
func (c Config) undo(s *state, k key, tried names) {
	if s.sessions[c.session(k)].alive && s.inFlight[k] != 0 && !c.Rules.SilenceAnswers {
		s.cancel[k] = true
	}
	var next successors
	for n := range s.queues {
		at := s.queues[n].at(k)
		if at < 0 {
			continue
		}
		if c.Rules.HandoffOnLeaving {
			next = s.successors(c, k, n)
		}
		s.remove(k, n)
		s.handOff(k, next)
		if c.Rules.OneKeyUndone {
			break
		}
	}
	for i := range s.slots {
		if tried.has(i) && !c.Rules.ForgetSlot {
			s.removeSlot(k, i)
		}
	}
}

// mayTake is the comparison of a take of slot i by k (SM1).
func (c Config) mayTake(s *state, k key, i int) bool {
	return s.sessions[c.session(k)].alive &&
		(s.queues[0].at(k) >= 0 || c.Rules.TakeTwice) &&
		(s.slots[i].of == 0 || c.Rules.BlindTake)
}

// take puts k's key in slot i and deletes the one in the turnstile.
func (c Config) take(s *state, k key, i int, ok bool) {
	s.takes[k] &^= 1 << i
	me := &s.clients[k.owner()]
	if ok {
		s.slots[i] = slot{k, s.rev}
		s.remove(k, 0)
	}
	if me.pc == taking && k == c.key(s, k.owner()) && int(me.slot) == i && !me.got.there {
		me.got = answer{there: true, ok: ok}
		if ok {
			me.token = s.rev
		}
	}
}

// free is the lowest slot that k may take, or -1 if there is none. It uses the least of k's limit
// and of the holders' (SM3).
func (c Config) free(s *state, k key) int {
	least, lowest, taken := c.limit(k), -1, 0
	for i := len(s.slots) - 1; i >= 0; i-- {
		switch f := s.slots[i].of; {
		case f == 0:
			lowest = i
		case !c.Rules.OwnLimit:
			least = min(least, c.limit(f))
			fallthrough
		default:
			taken++
		}
	}
	if taken >= least {
		return -1
	}
	return lowest
}
