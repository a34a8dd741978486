package model

import (
	"fmt"
	"slices"

	production "github.com/pawl-locks/pawl/internal/queue/state"
)

// takeover is the report of a step with which client i's session is handed over or resumed (N6), or
// nil if it is another step. Until a key is resumed nothing can hold, and what did not hold when
// the session was handed over is undone.
func (l *lockstep) takeover(p, next *pair, i int, what string) report {
	was, me := &p.s.clients[i], &next.s.clients[i]
	switch {
	case what == "hands its session over":
		return events(production.EndOfSession{})
	case what == "is resumed" && me.pc == undoing && was.pc == handed:
		return func(a *production.Machine) string {
			*a = production.Left(false) // in its successor's book, which removes all of that
			return ""
		}
	case what == "is resumed", what == "finds its session gone":
		return events()
	case was.was && (what == "queries its position" || what == "queries its turn"):
		return func(a *production.Machine) string { return l.resumes(p, next, i, a) }
	}
	return nil
}

// resumes is the answer to the query of a key that was held when its session was handed over:
// it is held if nothing is before it, and otherwise what is left of it goes.
func (l *lockstep) resumes(p, next *pair, i int, a *production.Machine) (wrong string) {
	k := l.c.key(&p.s, i)
	own, others := production.Key{Name: l.name(k), Create: l.createdOf(p, k)}, l.names(k)[1:]
	if l.c.isPermit(k) {
		own.Name = l.slotName(k, int(p.s.clients[i].slot))
	}
	switch {
	case next.s.clients[i].pc == held:
		changed, _ := l.own(p, i)
		*a = production.Resumed(own, changed.Mod, others...)
	case slices.Contains(l.present(p, k), true):
		*a = production.Resumed(own, own.Create, others...)
		if fx := a.Apply(production.OwnDeleted{}); fx.End != production.KeyDeleted || !fx.Rest {
			return fmt.Sprintf("what is left of a set that is resumed goes otherwise: %+v", fx)
		}
	default:
		a.Apply(production.GaveUp{})
	}
	return ""
}
