package model

// takeoverSteps adds handing client i's session over, and resuming it elsewhere (N6). There are
// two copies of the handle, each with a process.
func (w *walker) takeoverSteps(i int) {
	me := w.from.clients[i]
	ses := w.from.sessions[w.c.Clients[i].Session]
	switch me.pc {
	case idle, done, dead:
	case handed:
		if !ses.alive {
			w.try("finds its session gone", i, func(s *state, me *client) {
				w.ends(me)
				me.pc = dead
			})
		}
	default:
		if ses.valid && !ses.taken {
			w.may("hands its session over", i, func(s *state, me *client) {
				me.twin = w.c.Rules.DetachGoesOn && me.pc == held
				me.was, me.handles, me.pc, me.got = me.pc == held, 2, handed, answer{}
				me.next = successors{}                   // which no process resumes
				w.sessionEnds(s, w.c.Clients[i].Session) // in this process
			})
		}
	}
	if me.handles > 0 && ses.alive {
		w.may("is resumed", i, func(s *state, me *client) { w.resumes(s, me, i) })
	}
}

// resumes is the transaction that takes a session over. It compares the session key with the
// handle. Requests of the previous process that are still under way compare the key too, and are
// refused afterwards.
func (w *walker) resumes(s *state, me *client, i int) {
	ses := &s.sessions[w.c.Clients[i].Session]
	me.handles--
	switch {
	case !ses.taken:
		ses.taken, ses.valid = true, true
		k := w.c.key(s, i)
		s.inFlight[k], s.takes[k] = 0, 0
		if w.c.Reuse {
			w.inherits(s, me, i)
		}
		switch {
		case me.was && w.c.Rules.ResumedUnasked:
			w.hold(me)
		case me.was:
			me.pc = querying
		case w.c.Rules.HandleForgets:
			w.next(s, i)
		default:
			me.pc = undoing
		}
	case w.c.Rules.HandleTwice:
		me.twin = me.pc == held
	}
}
