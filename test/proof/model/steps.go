package model

// A step is something that can happen in a state.
type step struct {
	name string
	to   state
	may  bool   // it need not happen
	bad  string // the property that it breaks
}

// A write is a transaction that can be applied now.
type write struct {
	name    string
	i       int   // the client's number
	of      names // the queues that it touches
	enqueue bool
	handoff bool
	compare func(s *state) bool
	apply   func(s *state, ok bool)
}

// steps returns all that can happen in s.
func (c Config) steps(s *state) []step {
	w := walker{c: c, from: s, steps: make([]step, 0, 16)}
	for i := range c.Clients {
		w.clientSteps(i)
		w.operatorSteps(i)
		w.storageSteps(i)
		if c.Takeovers {
			w.takeoverSteps(i)
		}
		if c.Clients[i].Session == i {
			w.sessionSteps(i)
		}
	}
	for k := key(1); int(k) <= len(c.Clients)*maxAcquisitions; k++ {
		w.networkSteps(k)
	}
	for i, a := range w.writes {
		w.write(a)
		if !c.Batches {
			continue
		}
		for j, b := range w.writes {
			if i != j && a.i != b.i && w.together(a, b) {
				w.batch(a, b)
			}
		}
	}
	return w.steps
}

type walker struct {
	c      Config
	from   *state
	steps  []step
	writes []write
}

// try adds the step with do's effect on the state.
func (w *walker) try(name string, i int, do func(s *state, me *client)) {
	to := *w.from
	do(&to, &to.clients[i])
	w.add(name+" "+string(rune('A'+i)), to, false)
}

// may is try for a step that need not happen.
func (w *walker) may(name string, i int, do func(s *state, me *client)) {
	w.try(name, i, do)
	w.steps[len(w.steps)-1].may = true
}

// fails sets the property that the last step breaks, if it breaks one.
func (w *walker) fails(bad string) {
	if bad != "" {
		w.steps[len(w.steps)-1].bad = bad
	}
}

func (w *walker) add(name string, to state, may bool) {
	bad := to.broken(w.from, w.c)
	to.forget(w.c)
	w.steps = append(w.steps, step{name: name, to: to, may: may, bad: bad})
}

// write adds the step of a write that is sent alone.
func (w *walker) write(a write) {
	to := *w.from
	ok := a.compare(w.from)
	if ok && a.enqueue {
		to.rev++
	}
	a.apply(&to, ok)
	w.add(a.name+" "+string(rune('A'+a.i)), to, false)
}

// together reports whether a and b may share a request. Neither an enqueue nor a release that hands
// off shares one with anything else of its queue (G2).
func (w *walker) together(a, b write) bool {
	switch {
	case a.of&b.of == 0:
		return true
	case a.enqueue && b.enqueue:
		return w.c.Rules.TieInBatch
	case a.enqueue || b.enqueue:
		return w.c.Rules.ReleaseWithEnqueue
	}
	return !a.handoff && !b.handoff
}

// batch adds the step of two writes in one request. Their comparisons are made before either is
// applied, and their puts have one revision.
func (w *walker) batch(a, b write) {
	to := *w.from
	to.rev++
	okA, okB := a.compare(w.from), b.compare(w.from)
	a.apply(&to, okA)
	b.apply(&to, okB)
	for _, i := range []int{a.i, b.i} {
		got := &to.clients[i].got
		for n, pred := range got.pred {
			if pred != 0 && to.queues[n].at(pred) < 0 && w.from.queues[n].at(pred) >= 0 {
				got.missed |= 1 << n // it was deleted at the revision of the answer
			}
		}
	}
	w.add(a.name+" "+string(rune('A'+a.i))+" together with: "+b.name+" "+string(rune('A'+b.i)), to, false)
}

// sessionSteps adds the ends of session i's deadline and of its lease.
func (w *walker) sessionSteps(i int) {
	ses := w.from.sessions[i]
	if ses.valid && w.from.used(w.c, i) {
		w.may("passes its deadline", i, func(s *state, _ *client) { w.sessionEnds(s, i) })
	}
	if ses.alive && (!ses.valid || w.c.Rules.ExpireEarly) && !w.keepsAny(i) {
		w.try("loses its lease", i, func(s *state, _ *client) {
			s.sessions[i].alive = false
			s.expire(w.c, i)
			for j := range s.clients {
				if j < len(w.c.Clients) && w.c.Clients[j].Session == i && w.c.Rules.NoDeadline && s.clients[j].pc != held {
					s.clients[j].pc = dead
				}
			}
		})
	}
}

// used reports whether a client of session i is not done.
func (s *state) used(c Config, i int) bool {
	for j := range c.Clients {
		if c.Clients[j].Session == i && s.clients[j].pc != done {
			return true
		}
	}
	return false
}

// operatorSteps adds the deletion of a key of client i while it holds, or while it waits
// without a handoff, which it would learn of before the deletion.
func (w *walker) operatorSteps(i int) {
	me := w.from.clients[i]
	k := w.c.key(w.from, i)
	var lost bool
	switch me.pc {
	case settling, waiting, querying, taking, full:
		if int(w.from.mishaps) >= w.c.Deletes || w.from.handoffs[k].by != 0 {
			return
		}
	case held, winding, handed:
		if lost = int(w.from.losses) < w.c.Losses; !lost {
			return
		}
	default:
		return
	}
	deletes := func(n int, remove func(s *state)) {
		w.may("an operator deletes the key of", i, func(s *state, me *client) {
			remove(s)
			s.past[k].marked = w.c.Reuse
			if lost {
				s.losses++
				me.lost |= 1 << n
				if s.kept[k].of &^= 1 << n; s.kept[k].of == 0 {
					s.kept[k] = kept{} // an operator's deletion has no delay
				}
			} else {
				s.mishaps++
			}
		})
	}
	for n := range w.from.queues {
		if w.from.queues[n].at(k) >= 0 {
			deletes(n, func(s *state) { s.remove(k, n) })
		}
	}
	if slot := w.from.slotOf(k); slot >= 0 && lost {
		deletes(0, func(s *state) { s.removeSlot(k, slot) })
	}
}

// networkSteps adds what can happen to copies under way: they are applied, or lost.
func (w *walker) networkSteps(k key) {
	i := k.owner()
	if of := w.from.inFlight[k]; of != 0 {
		w.writes = append(w.writes, write{
			name: "an enqueue arrives of", i: i, of: of, enqueue: true,
			compare: func(s *state) bool { return w.c.mayEnqueue(s, k) },
			apply:   func(s *state, ok bool) { w.c.enqueue(s, k, ok) },
		})
		w.try("an enqueue is lost of", i, func(s *state, me *client) { s.inFlight[k] = 0 })
	}
	for slot := range w.from.slots {
		if !w.from.takes[k].has(slot) {
			continue
		}
		w.try("a take arrives of", i, func(s *state, me *client) {
			ok := w.c.mayTake(w.from, k, slot)
			if ok {
				s.rev++
			}
			w.c.take(s, k, slot, ok)
		})
		w.try("a take is lost of", i, func(s *state, me *client) { s.takes[k] &^= 1 << slot })
	}
	if w.from.releases[k].copies > 0 {
		w.try("a release arrives of", i, func(s *state, me *client) {
			if !w.c.inPart(s, k) {
				w.c.release(s, k, s.releases[k].rev, s.releases[k].next)
			}
			s.releases[k] = late{}
		})
		w.try("a release is lost of", i, func(s *state, me *client) { s.releases[k] = late{} })
	}
	if w.c.Reuse {
		w.pastSteps(i, k)
	}
}
