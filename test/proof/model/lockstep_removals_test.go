package model

import production "github.com/pawl-locks/pawl/internal/queue/state"

// The lockstep walk's part about what has to be removed (rules A6, ML5). In the model nothing is forgotten:
// what a client has put, or may have put, it undoes.

// leaves gives ev to the state, and reports whether its keys have to be undone since then, and the effects
// have nobody do it: neither at once, nor after a hold that was lost.
func leaves(a *production.Machine, ev production.Event) (left bool, fx production.Effects) {
	was := a.Phase
	fx = a.Apply(ev)
	later := fx.Rest || fx.End == production.HeldTooLong || fx.End == production.KeyOverwritten
	return a.Phase == production.Undoing && was != production.Undoing && !fx.Remove && !later, fx
}

// forgets reports whether keys of k exist, or a copy of its enqueue may still put them, and the state of k's
// acquisition says that there is nothing left. p is the pair after the step that the state has taken in.
func (l *lockstep) forgets(p *pair, k key, a *production.Machine) bool {
	if a.Phase != production.Done || !p.s.sessions[l.c.session(k)].alive {
		return false
	}
	if p.s.inFlight[k] != 0 && !p.s.cancel[k] || p.s.slotOf(k) >= 0 {
		return true
	}
	for n := range p.s.queues {
		if p.s.queues[n].at(k) >= 0 {
			return true
		}
	}
	return false
}

// givesUp checks that client i could give up now, whatever it waits for: what it has put, or may have put, is
// then undone, with a cancel key while a copy of its enqueue may be applied (rule A5).
func (l *lockstep) givesUp(p *pair, i int) (wrong string) {
	me := &p.s.clients[i]
	switch {
	case me.pc < settling || me.pc > full, me.was: // it has no answer yet, holds, or was held elsewhere
		return ""
	}
	a := l.twins[p.twins[i]]
	left, _ := leaves(&a, production.GaveUp{})
	k := l.c.key(&p.s, i)
	late := p.s.sessions[l.c.session(k)].alive && p.s.inFlight[k] != 0 && !p.s.cancel[k]
	switch {
	case left, a.Phase != production.Undoing:
		return "who gives up leaves its keys"
	case late && !a.Late():
		return "who gives up has its keys removed without the cancel key"
	}
	return ""
}
