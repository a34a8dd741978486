package model

// storageSteps adds the operations of client i on a storage with the first name: one while it
// holds, or one that was sent then and arrives late.
func (w *walker) storageSteps(i int) {
	if !w.c.Storage {
		return
	}
	me := w.from.clients[i]
	mode := w.c.want(w.c.key(w.from, i))[0]
	var token uint8
	switch {
	case w.from.believes(i, w.c) && !me.used:
		token = me.token
	case me.old != 0:
		token = me.old
	default:
		return
	}
	admitted := w.admits(mode, token)
	w.may("an operation reaches the storage of", i, func(s *state, me *client) {
		me.used, me.old = true, 0
		if !admitted {
			return
		}
		s.storage.any = max(s.storage.any, token)
		if mode == Exclusive {
			s.storage.exclusive = max(s.storage.exclusive, token)
		}
	})
	st := &w.steps[len(w.steps)-1]
	switch {
	case !admitted && me.old == 0:
		st.bad = "the storage refused a holder"
	case admitted && (token < w.from.storage.exclusive || mode == Exclusive && token < w.from.storage.any):
		st.bad = "a stale operation passed after a newer one that conflicts"
	}
}

// admits is the decision of the storage by its two registers (K2).
func (w *walker) admits(mode Mode, token uint8) bool {
	at := w.from.storage
	switch {
	case w.c.Rules.NewestOnly:
		return token >= at.any
	case w.c.Rules.ExclusiveOnly:
		return token >= at.exclusive
	case mode == Shared:
		return token > at.exclusive
	}
	return token >= at.any
}

// ends records that a hold ends, whose operation may still be under way.
func (w *walker) ends(me *client) {
	if w.c.Storage && me.pc == held && !me.used {
		me.old, me.used = me.token, true
	}
}
