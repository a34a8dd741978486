package model

// A step is something that can happen in a state.
type step struct {
	name string
	to   state
	bad  string // the property that it breaks
}

// steps are all that can happen in s.
func (c Config) steps(s *state) []step {
	w := walker{c: c, from: s}
	for i := range c.Clients {
		w.clientSteps(i)
		w.sessionSteps(i)
		w.operatorSteps(i)
	}
	for k := key(1); int(k) <= maxKeys; k++ {
		w.networkSteps(k)
	}
	return w.steps
}

type walker struct {
	c     Config
	from  *state
	steps []step
}

// try adds the step that do makes of the state.
func (w *walker) try(name string, i int, do func(s *state, me *client)) {
	to := *w.from
	do(&to, &to.clients[i])
	bad := to.broken(w.from, w.c.Rules)
	to.forget(w.c)
	w.steps = append(w.steps, step{name: name + " " + string(rune('A'+i)), to: to, bad: bad})
}

// clientSteps are what client i can do of its own accord.
func (w *walker) clientSteps(i int) {
	me := w.from.clients[i]
	if !me.valid && me.pc != done && me.pc != dead && !w.c.Rules.NoDeadline {
		w.try("sees its session over", i, func(s *state, me *client) { me.pc, me.got = dead, answer{} })
		return
	}
	switch me.pc {
	case idle:
		w.try("sends enqueue", i, func(s *state, me *client) {
			me.pc = enqueuing
			s.inFlight[w.c.key(s, i)]++
		})
	case enqueuing:
		if me.got.there {
			w.try("hears of its enqueue", i, w.enqueued)
		}
		w.try("gives its enqueue up", i, func(s *state, me *client) {
			me.pc, me.got = settling, answer{}
			if w.c.Rules.ForgetEnqueue {
				w.next(me)
			}
		})
	case settling:
		w.settle(i)
	case waiting:
		if w.from.at(me.pred) < 0 {
			w.try("hears that the one before is gone", i, func(s *state, me *client) {
				me.pc = asking
				if w.c.Rules.TrustEvent {
					w.hold(me)
				}
			})
		}
		if g := w.from.grants[w.c.key(w.from, i)]; g.by != 0 {
			w.try("hears of its grant", i, func(s *state, me *client) {
				me.pc = asking
				if g.by == me.pred {
					me.heirs = g.heirs
					w.hold(me)
				}
			})
		}
		w.try("gives up waiting", i, func(s *state, me *client) { me.pc = undoing })
	case asking:
		w.try("asks for its place", i, w.ask(i))
	case held:
		w.try("releases", i, func(s *state, me *client) {
			me.pc = releasing
			s.releases[w.c.key(s, i)] = late{1, me.heirs}
			if w.c.Rules.GrantAhead {
				s.grant(w.c.key(s, i), me.heirs)
			}
		})
	case releasing:
		w.release(i)
	case undoing:
		w.undo(i)
	}
}

// next goes on to the next attempt, or to the end.
func (w *walker) next(me *client) {
	me.pc, me.pred, me.token, me.heirs, me.got = done, 0, 0, heirs{}, answer{}
	if int(me.attempt)+1 < w.c.Attempts {
		me.attempt++
		me.pc = idle
	}
}

func (w *walker) hold(me *client) { me.pc = held }

// enqueued takes the answer to an enqueue in.
func (w *walker) enqueued(s *state, me *client) {
	got := me.got
	me.got = answer{}
	switch {
	case !got.ok:
		w.next(me)
	case got.pred == 0:
		w.hold(me)
	default:
		me.pc, me.pred = waiting, got.pred
	}
}

// settle decides an enqueue whose answer was lost (A5). Its own answer may be
// lost too: then it has happened, and is done again.
func (w *walker) settle(i int) {
	do := func(heard bool) func(s *state, me *client) {
		return func(s *state, me *client) {
			k := w.c.key(s, i)
			at := s.at(k)
			if me.alive && !w.c.Rules.AbsenceSettles {
				s.cancel[k] = true
			}
			switch {
			case !heard:
			case at >= 0:
				me.pc, me.token = asking, s.created[at]
			default:
				w.next(me)
			}
		}
	}
	w.try("settles", i, do(true))
	w.try("settles, the answer is lost,", i, do(false))
}

// ask is the transaction that decides who owns the line (A2).
func (w *walker) ask(i int) func(s *state, me *client) {
	return func(s *state, me *client) {
		at := s.at(w.c.key(s, i))
		switch {
		case at < 0 && !w.c.Rules.AskOnce, at >= 0 && s.created[at] != me.token:
			me.pc = undoing // it was deleted, or its lease is gone
		case at < 0: // only the keys before were looked at
			if s.n == 0 || s.created[0] > me.token {
				w.hold(me)
			} else {
				me.pc, me.pred = waiting, s.line[0]
			}
		case at == 0:
			me.heirs = s.behind(at)
			w.hold(me)
		default:
			me.pc, me.pred = waiting, s.before(at)
		}
	}
}

// release deletes under a comparison of the create revision (R1), and grants to
// the next; done twice it is harmless, so a lost answer is a repetition.
func (w *walker) release(i int) {
	do := func(heard, grants bool) func(s *state, me *client) {
		return func(s *state, me *client) {
			k := w.c.key(s, i)
			if at := s.at(k); at >= 0 && s.created[at] == me.token {
				s.remove(at)
				if grants {
					s.grant(k, me.heirs)
				}
			}
			if heard {
				w.next(me)
			}
		}
	}
	w.try("is released", i, do(true, true))
	w.try("is released without a grant", i, do(true, false))
	w.try("is released, the answer is lost,", i, do(false, true))
}

// grant puts a grant by k on the first of h, if that is there.
func (s *state) grant(k key, h heirs) {
	if next := h[0]; next != 0 && s.at(next) >= 0 {
		s.grants[next] = grant{k, h.rest()}
	}
}

// undo removes a failed attempt, whatever became of it (A6).
func (w *walker) undo(i int) {
	w.try("is undone", i, func(s *state, me *client) {
		k := w.c.key(s, i)
		if me.alive && s.inFlight[k] > 0 {
			s.cancel[k] = true
		}
		if at := s.at(k); at >= 0 {
			behind := s.behind(at)
			s.remove(at)
			if w.c.Rules.GrantOnLeaving {
				s.grant(k, behind)
			}
		}
		w.next(me)
	})
}

// sessionSteps are the passing of client i's deadline, and of its lease.
func (w *walker) sessionSteps(i int) {
	me := w.from.clients[i]
	if me.valid && me.pc != done {
		w.try("passes its deadline", i, func(s *state, me *client) { me.valid = false })
	}
	if me.alive && (!me.valid || w.c.Rules.ExpireEarly) {
		w.try("loses its lease", i, func(s *state, me *client) {
			me.alive = false
			for at := int(s.n) - 1; at >= 0; at-- {
				if s.line[at].owner() == i {
					s.remove(at)
				}
			}
			for k := range s.cancel {
				if k > 0 && key(k).owner() == i {
					s.cancel[k] = false
				}
			}
			if w.c.Rules.NoDeadline && me.pc != held {
				me.pc = dead
			}
		})
	}
}

// operatorSteps delete the key of client i while it waits and has no grant, of
// which it would hear before it hears of the end.
func (w *walker) operatorSteps(i int) {
	me := w.from.clients[i]
	if int(w.from.mishaps) >= w.c.Deletes || me.pc != waiting && me.pc != asking {
		return
	}
	k := w.c.key(w.from, i)
	if at := w.from.at(k); at >= 0 && w.from.grants[k].by == 0 {
		w.try("an operator deletes the key of", i, func(s *state, me *client) {
			s.mishaps++
			s.remove(at)
		})
	}
}

// networkSteps are what becomes of copies under way: applied, or lost.
func (w *walker) networkSteps(k key) {
	i := k.owner()
	if w.from.inFlight[k] > 0 {
		w.try("an enqueue arrives of", i, func(s *state, me *client) { w.arrive(s, me, k, i) })
		w.try("an enqueue is lost of", i, func(s *state, me *client) { s.inFlight[k]-- })
	}
	if w.from.releases[k].copies > 0 {
		w.try("a release arrives of", i, func(s *state, me *client) {
			if at := s.at(k); at >= 0 {
				s.remove(at)
				s.grant(k, s.releases[k].heirs)
			}
			s.releases[k] = late{}
		})
		w.try("a release is lost of", i, func(s *state, me *client) { s.releases[k] = late{} })
	}
}

// arrive applies an enqueue: if neither the key nor its cancel key is there, and
// the lease is alive.
func (w *walker) arrive(s *state, me *client, k key, i int) {
	s.inFlight[k]--
	got := answer{there: true}
	if s.at(k) < 0 && me.alive && (!s.cancel[k] || w.c.Rules.NoCancelKey) {
		s.add(k)
		got.ok = true
		got.pred = s.before(int(s.n) - 1)
	}
	if me.pc == enqueuing && k == w.c.key(s, i) && !me.got.there {
		me.got = got
		if got.ok {
			me.token = s.rev
		}
	}
}
