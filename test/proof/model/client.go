package model

// clientSteps adds the steps that client i can take by itself.
func (w *walker) clientSteps(i int) {
	me := w.from.clients[i]
	if !w.from.sessions[w.c.Clients[i].Session].valid && me.pc != done && me.pc != dead && me.pc != handed && !w.c.Rules.NoDeadline {
		w.try("sees its session ended", i, func(s *state, me *client) {
			w.ends(me)
			me.pc = dead
		})
		return
	}
	k := w.c.key(w.from, i)
	if w.from.kept[k].of != 0 {
		w.try("the delay passes of", i, func(s *state, _ *client) { s.kept[k] = kept{} })
	}
	if w.c.Reuse {
		w.reuseSteps(i, k)
	}
	switch me.pc {
	case idle:
		bad := ""
		w.try("sends enqueue", i, func(s *state, me *client) { bad = w.sends(s, i, k) })
		w.fails(bad)
	case enqueuing:
		if me.got.there {
			w.enqueued(i)
			if w.c.NoSpace && !me.copied {
				w.try("learns that the disk is full", i, func(s *state, me *client) {
					me.pc, me.got, me.sure = undoing, answer{}, false
				})
			}
		}
		w.try("gives its enqueue up", i, func(s *state, me *client) {
			me.pc, me.got, me.sure = settling, answer{}, false
			switch {
			case w.c.Rules.ForgetEnqueue:
				w.next(s, i)
			case w.c.Rules.SilenceAnswers:
				me.pc = undoing
			}
		})
	case settling:
		w.settle(i)
	case waiting:
		w.waits(i, k)
		w.may("gives up waiting", i, func(s *state, me *client) { me.pc = undoing })
	case querying:
		if w.c.isPermit(k) {
			w.queryTurn(i)
		} else {
			w.query(i)
		}
	case taking:
		w.takes(i)
	case full:
		if w.c.free(w.from, k) >= 0 {
			w.try("learns that a slot is free", i, func(s *state, me *client) { me.pc = querying })
		}
		w.operatorMayHaveDeleted(i, k)
		w.may("gives up waiting", i, func(s *state, me *client) { me.pc = undoing })
	case held:
		w.holds(i, k)
	case winding:
		w.try("winds up", i, func(s *state, me *client) { w.ends(me); me.pc = undoing })
	case releasing:
		w.releases(i, k)
	case undoing:
		w.undoes(i, k)
	}
}

// next starts client i's next acquisition, or ends it.
func (w *walker) next(s *state, i int) {
	me := &s.clients[i]
	w.ends(me)
	*me = client{pc: done, nth: me.nth, used: me.used, old: me.old, number: me.number, second: me.second}
	if int(me.nth)+1 < len(w.c.Clients[i].Wants) {
		if w.c.Reuse {
			me.number.take()
		}
		if !me.number.none {
			me.nth++
			me.pc = idle
		}
	}
}

// sends sends an enqueue of k. If the session has no other key of the name, the enqueue reads
// around the session's keys. When the answer comes, the client decides whether that is still so
// (RW5).
func (w *walker) sends(s *state, i int, k key) (bad string) {
	me := &s.clients[i]
	if w.c.Reuse {
		bad = w.sendsUnder(s, k)
	}
	me.pc, me.around, me.overtaken = enqueuing, w.c.handsOff(k) && (!w.c.Reuse || w.c.Rules.ReuseAround), false
	s.inFlight[k] = w.c.names(k)
	for j := range w.c.Clients {
		other := w.c.key(s, j)
		if j == i || w.c.Clients[j].Session != w.c.Clients[i].Session || w.c.names(other)&w.c.names(k) == 0 {
			continue
		}
		if w.c.Rules.CountByForm && w.c.want(other) != w.c.want(k) {
			continue
		}
		s.clients[j].overtaken = true
		if p := s.clients[j].pc; p != idle && p != done && p != dead {
			me.around = false
		}
	}
	return bad
}

// follows makes what preds shows in one of its queues the predecessor, in any queue. It calls none
// if preds shows none. A set waits in one queue at a time (ML4).
func (w *walker) follows(name string, i int, preds [maxNames]key, missed names, none func(s *state, me *client)) {
	if preds == ([maxNames]key{}) {
		w.try(name, i, func(s *state, me *client) {
			me.got, me.pred, me.in, me.missed = answer{}, 0, 0, false
			none(s, me)
		})
		return
	}
	for n, pred := range preds {
		if pred == 0 {
			continue
		}
		w.try(name, i, func(s *state, me *client) {
			me.got = answer{}
			me.pc, me.pred, me.in, me.missed = waiting, pred, uint8(n), missed.has(n)
		})
	}
}

// enqueued processes the answer to an enqueue.
func (w *walker) enqueued(i int) {
	me := w.from.clients[i]
	k := w.c.key(w.from, i)
	name := "learns of its enqueue"
	switch {
	case me.copied && !w.c.Rules.CopyIsAnswered:
		w.try("learns that an answer to its enqueue is beside another copy", i, func(s *state, me *client) { me.pc, me.got, me.sure = settling, answer{}, false })
	case !me.got.ok && w.c.Reuse && w.from.own(k) != 0 && !w.c.Rules.KeyIsRefusal:
		w.try("removes what an older enqueue has put, and takes another number,", i, func(s *state, me *client) { w.another(s, i, k) })
	case !me.got.ok && me.number.again && w.from.cancel[k] && w.from.sessions[w.c.session(k)].alive:
		w.try(name, i, func(s *state, me *client) { w.next(s, i) })
		w.fails("an enqueue was refused because of an older one's cancel key")
	case !me.got.ok:
		w.try(name, i, func(s *state, me *client) {
			if w.c.Rules.EnqueueInParts {
				me.pc, me.got = undoing, answer{}
			} else {
				w.next(s, i)
			}
		})
	case w.c.isPermit(k) && w.c.Rules.OutOfTurn:
		w.follows(name, i, [maxNames]key{}, 0, func(s *state, me *client) { me.pc = querying })
	default:
		whole := !me.around || !me.overtaken
		w.follows(name, i, me.got.pred, me.got.missed, func(s *state, me *client) {
			if me.pc = querying; !w.c.isPermit(k) && whole {
				w.hold(me)
			}
		})
	}
}

// settle decides an enqueue whose answer was lost (A5). Either all its keys exist, or some are
// missing and it is undone, or none exists and none will (ML5). The answer to settle may be lost
// too, and settle is then repeated.
func (w *walker) settle(i int) {
	do := func(answered bool) func(s *state, me *client) {
		return func(s *state, me *client) {
			k := w.c.key(s, i)
			of := w.c.names(k)
			if w.c.Rules.OneKeySettles {
				of &= -of
			}
			if s.sessions[w.c.session(k)].alive && !w.c.Rules.AbsenceSettles {
				s.cancel[k] = true
			}
			var found names
			var rev uint8
			for n := range s.queues {
				if at := s.queues[n].at(k); at >= 0 && of.has(n) {
					found |= 1 << n
					rev = s.queues[n].created[at]
				}
			}
			switch {
			case !answered:
			case found == 0:
				w.next(s, i)
			case found == of && !w.isOurs(s, k, rev):
				w.another(s, i, k)
			case found == of:
				me.pc, me.token = querying, rev
			default:
				me.pc = undoing
			}
		}
	}
	w.try("settles", i, do(true))
	w.try("settles, the answer is lost,", i, do(false))
}

// waits adds what ends a wait: the predecessor is gone, or its release handed off.
func (w *walker) waits(i int, k key) {
	me := w.from.clients[i]
	if (w.from.queues[me.in].at(me.pred) < 0 || w.isNewer(me.pred, int(me.in), me.token)) && !me.missed {
		w.try("learns that the one before is gone", i, func(s *state, me *client) {
			me.pc = querying
			if w.c.Rules.TrustEvent {
				w.hold(me)
			}
		})
	}
	if g := w.from.handoffs[k]; g.by != 0 {
		w.try("learns of its handoff", i, func(s *state, me *client) {
			me.pc = querying
			if g.by == me.pred {
				me.next = g.next
				w.hold(me)
			}
		})
	}
	w.operatorMayHaveDeleted(i, k)
}

// operatorMayHaveDeleted is the watch of a waiting client's keys, which shows that one is gone
// while the lease is alive (A3).
func (w *walker) operatorMayHaveDeleted(i int, k key) {
	if w.from.mishaps == 0 || !w.from.sessions[w.c.session(k)].alive {
		return
	}
	for n := range w.from.queues {
		if w.c.names(k).has(n) && w.from.queues[n].at(k) < 0 {
			w.try("learns that its own key is gone", i, func(s *state, me *client) { me.pc = undoing })
			return
		}
	}
}

func (w *walker) hold(me *client) { me.pc = held }

// query is the transaction that decides who owns (A2): all keys of the acquisition exist, and
// nothing that bars them was created before (RW2, ML3).
func (w *walker) query(i int) {
	name := "queries its position"
	me := w.from.clients[i]
	k := w.c.key(w.from, i)
	var preds [maxNames]key
	missing := false
	compared := false
	for n := range w.from.queues {
		q := &w.from.queues[n]
		if !w.c.names(k).has(n) || w.c.Rules.OneQueueDecides && me.pred != 0 && int(me.in) != n {
			continue
		}
		at := q.at(k)
		if !compared || !w.c.Rules.OneKeyDecides {
			missing = missing || at < 0 && !w.c.Rules.QueryOnce || at >= 0 && q.created[at] != me.token && !w.c.Rules.EnqueueInParts
		}
		compared = true
		rev := me.token
		if at >= 0 {
			rev = q.created[at]
		}
		preds[n] = w.from.predecessor(w.c, k, n, rev)
	}
	if ses := w.from.sessions[w.c.session(k)]; missing || !ses.alive && !w.c.Rules.QueryOnce {
		w.try(name, i, func(s *state, me *client) { me.pc = undoing }) // it was deleted, or its lease is gone
		return
	}
	w.follows(name, i, preds, 0, func(s *state, me *client) {
		if w.c.handsOff(k) && w.c.names(k) != 1|2 && !me.was {
			for n := range s.queues {
				if s.queues[n].at(k) >= 0 {
					me.next = s.successors(w.c, k, n)
				}
			}
		}
		w.hold(me)
	})
}

// holds adds what ends a hold: a release, or its loss.
func (w *walker) holds(i int, k key) {
	w.try("releases", i, func(s *state, me *client) { w.sendsRelease(s, me, k) })
	if w.c.LockDelay {
		w.may("has held for too long", i, func(s *state, me *client) {
			w.keeps(s, k, heldTooLong)
			w.ends(me)
			me.pc = undoing
		})
	}
	if w.from.clients[i].lost == 0 {
		return
	}
	w.try("learns of its loss", i, func(s *state, me *client) {
		if me.lost == w.c.names(k) {
			w.next(s, i)
			return
		}
		w.keeps(s, k, lostInPart)
		me.pc = winding
		if w.c.Rules.FreeAtLoss {
			w.c.release(s, k, me.token, successors{})
		}
	})
}

func (w *walker) sendsRelease(s *state, me *client, k key) {
	w.ends(me)
	me.pc = releasing
	s.releases[k] = late{copies: 1, next: me.next}
	if w.c.Reuse && !w.c.Rules.ReleaseByName {
		s.releases[k].rev = me.token
	}
	if w.c.Rules.HandoffAhead {
		s.handOff(k, me.next)
	}
}

// releases deletes under a comparison of the create revisions (R1), and hands off to the next.
// Doing it twice is harmless, so a lost answer leads to a repetition. A set that was lost in part is
// undone instead.
func (w *walker) releases(i int, k key) {
	me := w.from.clients[i]
	rev := me.token
	if w.c.Rules.EnqueueInParts {
		rev = 0
	}
	deletes := func(name string, answered bool, h successors) {
		w.writes = append(w.writes, write{
			name: name, i: i, of: w.c.names(k), handoff: h != successors{},
			compare: func(s *state) bool { return true },
			apply: func(s *state, _ bool) {
				switch {
				case w.c.inPart(s, k) && answered:
					s.clients[i].pc = undoing
				case w.c.inPart(s, k):
				default:
					found := w.c.release(s, k, rev, h)
					if answered {
						w.ended(s, i, found)
						w.next(s, i)
					}
				}
			},
		})
	}
	deletes("is released", true, me.next)
	deletes("is released without a handoff", true, successors{})
	deletes("is released, the answer is lost,", false, me.next)
}

// keeps records that the hold of k ends without its release. Its keys stay until the delay has
// passed (LD2). An operator has deleted those that were lost, and for them there is no delay.
func (w *walker) keeps(s *state, k key, why cause) {
	if w.c.LockDelay && s.kept[k].of == 0 {
		s.kept[k] = kept{w.c.names(k) &^ s.clients[k.owner()].lost, why}
	}
}

// isKept reports whether k is not to be deleted yet.
func (w *walker) isKept(k key) bool {
	switch at, r := w.from.kept[k], w.c.Rules; {
	case at.of == 0, w.from.sessions[w.c.session(k)].taken && r.HandleFrees:
		return false
	default:
		return !(at.why == heldTooLong && r.FreeAtLimit || at.why == lostInPart && r.LateReleaseFrees)
	}
}

// keepsAny reports whether keys of session i are kept, so that its lease stays. It is revoked only
// after that, and expires only after that, because it lasts a delay longer than the session trusts
// it (LD1).
func (w *walker) keepsAny(i int) bool {
	for k, at := range w.from.kept {
		switch r := w.c.Rules; {
		case at.of == 0 || w.c.session(key(k)) != i:
		case at.why == sessionEnded && !r.LeaseWithoutDelay, at.why != sessionEnded && !r.CloseAtOnce:
			return true
		}
	}
	return false
}

// sessionEnds ends session i in its process, whose holds have not been released.
func (w *walker) sessionEnds(s *state, i int) {
	s.sessions[i].valid = false
	for j := range w.c.Clients {
		if p := s.clients[j].pc; w.c.Clients[j].Session == i && (p == held || p == winding || p == handed && s.clients[j].was) {
			w.keeps(s, w.c.key(s, j), sessionEnded)
		}
	}
}

// undoes removes a failed acquisition, whatever its enqueue came to (A6), but not before the
// delay of a hold has passed.
func (w *walker) undoes(i int, k key) {
	if w.isKept(k) {
		return
	}
	w.writes = append(w.writes, write{
		name: "is undone", i: i, of: w.c.names(k), handoff: w.c.Rules.HandoffOnLeaving,
		compare: func(s *state) bool { return true },
		apply: func(s *state, _ bool) {
			me := &s.clients[i]
			if w.c.Reuse {
				w.ended(s, i, w.removes(s, me, k))
			} else {
				w.c.undo(s, k, me.tried)
			}
			w.next(s, i)
		},
	})
	if w.c.Reuse {
		w.sendsRemoval(i, k)
	}
}
