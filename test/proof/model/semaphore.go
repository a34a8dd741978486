package model

// This file has what only a semaphore's client does.

// queryTurn queries whether the client's key is the first in the turnstile and, in the same
// transaction, which slots are taken (SM2). It sends a take if one is free.
func (w *walker) queryTurn(i int) {
	name := "queries its turn"
	k := w.c.key(w.from, i)
	me := w.from.clients[i]
	q := &w.from.queues[0]
	at := q.at(k)
	switch slot := w.from.slotOf(k); {
	case slot >= 0 && me.tried.has(slot): // a take whose answer was lost
		w.try(name, i, func(s *state, me *client) {
			me.slot, me.token = uint8(slot), s.slots[slot].created
			w.hold(me)
		})
		return
	case at < 0 && !(w.c.Rules.TakeTwice && me.tried != 0):
		w.try(name, i, func(s *state, me *client) { me.pc = undoing })
		return
	}
	if pred := w.from.predecessor(w.c, k, 0, me.token); at > 0 && pred != 0 && !w.c.Rules.OutOfTurn {
		w.follows(name, i, [maxNames]key{pred}, 0, nil)
		return
	}
	free := w.c.free(w.from, k)
	w.try(name, i, func(s *state, me *client) {
		me.pred, me.pc = 0, full
		if free >= 0 {
			me.pc, me.slot, me.got = taking, uint8(free), answer{}
			me.tried |= 1 << free
			s.takes[k] |= 1 << free
		}
	})
}

// takes processes the answer to a take.
func (w *walker) takes(i int) {
	me := w.from.clients[i]
	if me.got.there {
		w.try("learns of its take", i, func(s *state, me *client) {
			ok := me.got.ok
			me.got = answer{}
			if me.pc = querying; ok {
				w.hold(me)
			}
		})
	}
	w.try("gives its take up", i, func(s *state, me *client) { me.pc, me.got = querying, answer{} })
	w.may("gives up waiting", i, func(s *state, me *client) { me.pc, me.got = undoing, answer{} })
}
