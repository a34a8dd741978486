package model

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/keys"
	production "github.com/pawl-locks/pawl/internal/queue/state"
)

// The semaphores' part of the lockstep walk (rules SM1 to SM4).

// slotName is the key of k in a slot.
func (l *lockstep) slotName(k key, slot int) string {
	return keys.QueueKey{Lease: int64(k), N: 1, Form: keys.Slot, Slot: slot, Limit: l.c.limit(k)}.In("n/")
}

// hasSlot reports whether k is a permit of one that knows that it has a slot.
func (l *lockstep) hasSlot(p *pair, k key) bool {
	me := &p.s.clients[k.owner()]
	return l.c.isPermit(k) && l.c.key(&p.s, k.owner()) == k && (me.pc == held || me.pc == winding || me.pc == releasing || me.pc == querying && me.was)
}

// createdOf is the create revision of k's queue key, or of its slot's.
func (l *lockstep) createdOf(p *pair, k key) int64 {
	if l.hasSlot(p, k) {
		return int64(p.s.clients[k.owner()].token)
	}
	return int64(p.created[k])
}

// taken are the slots that are held, as a query reads them.
func (l *lockstep) taken(p *pair) (all []production.Taken) {
	for i, slot := range p.s.slots {
		if slot.of != 0 {
			all = append(all, production.Taken{Slot: i, Limit: l.c.limit(slot.of)})
		}
	}
	return all
}

// answerTurn is the answer to the query whether it is client i's turn, and which slots
// are held.
func (l *lockstep) answerTurn(p, next *pair, i int) production.Event {
	k := l.c.key(&p.s, i)
	me, to := &p.s.clients[i], &next.s.clients[i]
	gone := p.s.queues[0].at(k) < 0
	switch {
	case to.pc == held: // a take whose answer was lost was applied
		return production.TakeFound{Own: production.Key{Name: l.slotName(k, int(to.slot)), Create: int64(to.token)}}
	case gone && !p.s.sessions[l.c.session(k)].alive:
		return production.EndOfSession{}
	case gone && me.tried != 0:
		return production.TakeFound{}
	case gone:
		return production.OwnDeleted{}
	}
	ev := production.Answered{Found: true, Revision: int64(p.s.rev)}
	if to.pc == waiting {
		ev.Predecessor = l.seen(p, to.pred, to.in)
		return ev
	}
	ev.Taken = l.taken(p)
	return ev
}

// freed are the ways in which client i, whose semaphore is full, learns that a slot may be
// free: a watch shows it, or a compaction that hid it, or the renewals are its occasion to query.
func (l *lockstep) freed(p *pair, i int) []report {
	freed := production.SlotFreed{Revision: int64(p.s.rev)}
	all := []report{
		expects(production.Sleep, freed),
		expects(production.Sleep, production.SlotsWatchEnded{Missed: true}),
		expects(production.Sleep, production.SlotsWatchEnded{}, freed),
	}
	if l.present(p, l.c.key(&p.s, i))[0] {
		seen := l.observed(p, i, 0)
		all = append(all, expects(production.Sleep, seen, seen))
	}
	return all
}

// goneWhileFull is how one learns that its key in the turnstile is gone while its semaphore is
// full. If one of its takes may have deleted that, a query finds out.
func (l *lockstep) goneWhileFull() []report {
	return []report{func(a *production.Machine) string {
		tried := a.Trying()
		fx := a.Apply(production.OwnDeleted{})
		if !tried && fx.End != production.KeyDeleted {
			return fmt.Sprintf("the loss of the key in the turnstile is something else: %+v", fx)
		}
		if tried && (a.Phase != production.Querying || !fx.Wake || fx.End != production.Alive) {
			return fmt.Sprintf("a key that a take may have deleted is taken for lost: %+v", fx)
		}
		if tried {
			a.Apply(production.TakeFound{})
		}
		return ""
	}}
}

// bits are slots as the model has them.
func bits(slots []int) (of names) {
	for _, slot := range slots {
		of |= 1 << slot
	}
	return of
}

// slotDiffers says what the model and the state of client i's acquisition of a slot disagree
// about.
func (l *lockstep) slotDiffers(p *pair, i int, a *production.Machine) string {
	k := l.c.key(&p.s, i)
	me := &p.s.clients[i]
	predecessor := a.Predecessor
	tries := me.pc == querying && !me.was || me.pc == full || me.pc == taking
	switch {
	case me.pc == waiting && predecessor != l.seen(p, me.pred, me.in):
		return fmt.Sprintf("the model waits for %d, the state for %v", me.pred, predecessor)
	case tries && a.Own != (production.Key{Name: l.name(k), Create: int64(p.created[k])}):
		return fmt.Sprintf("the model has no slot yet, the state %v", a.Own)
	case tries && bits(a.Tried()) != me.tried:
		return fmt.Sprintf("the model has tried slots %b, the state %v", me.tried, a.Tried())
	case me.pc == taking && a.Slot() != int(me.slot):
		return fmt.Sprintf("the model takes slot %d, the state %d", me.slot, a.Slot())
	case me.pc == full && !a.FollowsSlots():
		return "the semaphore is full, and the state does not follow its slots"
	case me.pc == held && a.Own != (production.Key{Name: l.slotName(k, int(me.slot)), Create: int64(me.token)}):
		return fmt.Sprintf("the model has slot %d by token %d, the state %v", me.slot, me.token, a.Own)
	case me.pc == held && p.s.sessions[l.c.session(k)].valid && me.lost == 0 && p.s.slotOf(k) != int(me.slot):
		return "the state holds a slot that is not its own"
	}
	return ""
}
