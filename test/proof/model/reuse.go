package model

// This file is the use of a number again (A1). A client's number names its key, its cancel key and its marks. It comes back
// when nothing that was sent under it can do anything any more, and when the client knows that it ended it:
//
//  1. Its enqueue was sent in one copy, and answered as applied.
//  2. Its key is gone because the client deleted it, in an executed transaction that compared the create revision.
//  3. Nothing was ever sent that writes or deletes under the number without that comparison. No mark is left.
//  4. It is this process's own, not a predecessor's.
//  5. A late call about an older acquisition finds nothing, because entries are not known by their numbers.
//  6. A free number carries the revision at which it became free. A key that is not newer is not ours. One that is newer
//     and has an older value is removed, and the acquisition takes another number.

// numbers are a client's numbers, with Reuse. Each is that of a key.
type numbers struct {
	now   uint8 // that of the present acquisition
	next  uint8 // the greatest that was ever used
	free  names // those that can be used again
	none  bool  // there are no more: the model's bound, and not the algorithm's
	again bool  // the present one was used before
	freed [maxAcquisitions]uint8
}

// past is what an older use of a number has left, with Reuse.
type past struct {
	removal late // a copy of a removal under way; it deletes by name if its rev is 0
	copied  copied
	came    bool  // the key that is there has the value of an older use
	marked  bool  // an operator's eviction has left a mark
	was     uint8 // the create revision of a key that was deleted, which a snapshot still has
}

// copied is a second copy of an enqueue that is under way.
type copied uint8

const (
	notCopied copied = iota
	byUs             // the client knows of it
	byProxy          // nobody knows of it
	ofOlder          // the number is used again since
)

// ends makes the present number free, at revision rev.
func (n *numbers) ends(rev uint8) {
	n.free |= 1 << n.now
	n.freed[n.now] = rev
}

// take chooses the number of the next acquisition: the least that is free, or a new one.
func (n *numbers) take() {
	for i := range uint8(maxAcquisitions) {
		if n.free.has(int(i)) {
			n.free &^= 1 << i
			n.now, n.again = i, true
			return
		}
	}
	if n.none = n.next+1 == maxAcquisitions; !n.none {
		n.next++
	}
	n.now, n.again = n.next, false
}

// retired reports whether k's number is never used again.
func (s *state) retired(k key) bool {
	me := &s.clients[k.owner()]
	i := uint8(int(k-1) % maxAcquisitions)
	ended := me.pc == dead || me.pc == done
	return ended || i <= me.number.next && i != me.number.now && !me.number.free.has(int(i))
}

// foreign reports whether a key is there that a proxy's copy has put. It stays until its lease ends, or until its number
// is used.
func (s *state) foreign() bool {
	for k := range s.past {
		if s.past[k].came {
			return true
		}
	}
	return false
}

// own is the create revision of k's key in the first queue that has one, or 0.
func (s *state) own(k key) uint8 {
	for n := range s.queues {
		if at := s.queues[n].at(k); at >= 0 {
			return s.queues[n].created[at]
		}
	}
	return 0
}

// isNewer reports whether k in the queue of name n was created after rev, so that it is not the key that was there then.
func (w *walker) isNewer(k key, n int, rev uint8) bool {
	q := &w.from.queues[n]
	at := q.at(k)
	return w.c.Reuse && !w.c.Rules.PredByName && at >= 0 && q.created[at] > rev
}

// isOurs reports whether k's key, which settling an enqueue has found, is what that enqueue has put (condition 6).
func (w *walker) isOurs(s *state, k key, rev uint8) bool {
	me, r := &s.clients[k.owner()], w.c.Rules
	if !w.c.Reuse {
		return true
	}
	return (rev > me.number.freed[me.number.now] || r.FreeAtAnyTime) && (!s.past[k].came || r.OlderValueIsOurs)
}

// sendsUnder records that an enqueue is sent under k, and returns what is wrong with the use of its number.
func (w *walker) sendsUnder(s *state, k key) (bad string) {
	p := &s.past[k]
	switch again := s.clients[k.owner()].number.again; {
	case !again:
	case p.marked:
		return "a number was used again that has the mark of an eviction"
	case p.copied == byProxy:
		p.copied = ofOlder
	}
	return ""
}

// ended ends the present number of client i after a deletion of its keys. It is free if it is clean. found says that the
// deletion compared the create revision of the keys, and found them.
func (w *walker) ended(s *state, i int, found bool) {
	me, r := &s.clients[i], w.c.Rules
	if w.c.Reuse && (me.sure || r.ReuseDoubtful) && (found || r.ReuseUnknown) && (!me.inherited || r.ReuseInherited) {
		me.number.ends(s.rev)
		me.second = r.EntryByNumber
	}
}

// another has client i remove what is under its number, which is not its own, and enqueue under another number.
func (w *walker) another(s *state, i int, k key) {
	me := &s.clients[i]
	w.c.release(s, k, s.own(k), successors{})
	*me = client{pc: idle, nth: me.nth, used: me.used, old: me.old, number: me.number, second: me.second}
	if me.number.take(); me.number.none {
		me.pc = done
	}
}

// reuseSteps adds what only Reuse has, of client i.
func (w *walker) reuseSteps(i int, k key) {
	me := w.from.clients[i]
	if me.pc == idle && int(w.from.copies) < w.c.Copies {
		w.sendsCopied("sends two copies of its enqueue", i, k, byUs)
		w.sendsCopied("sends enqueue, of which a proxy keeps a copy,", i, k, byProxy)
	}
	if me.pc == enqueuing && me.number.again && int(w.from.restores) < w.c.Restores && w.isQuiet(i) && w.from.past[k].was != 0 && w.from.own(k) == 0 {
		w.may("a snapshot is restored, with the older key of", i, func(s *state, _ *client) {
			s.restores++
			s.queues[0].add(k, s.past[k].was)
		})
	}
	if w.c.Rules.EntryByNumber && me.second && w.from.own(k) != 0 {
		w.may("a second release of its older acquisition, which had paused, goes on", i, func(s *state, me *client) {
			me.second = false
			w.c.release(s, k, 0, successors{})
		})
	}
}

func (w *walker) sendsCopied(name string, i int, k key, by copied) {
	bad := ""
	w.try(name, i, func(s *state, me *client) {
		bad = w.sends(s, i, k)
		s.copies++
		s.past[k].copied, me.copied = by, by == byUs
	})
	w.fails(bad)
}

// isQuiet reports whether nobody but client i has a key, or waits for anything, as after a restored snapshot.
func (w *walker) isQuiet(i int) bool {
	for j := range w.c.Clients {
		if p := w.from.clients[j].pc; j != i && p != idle && p != done && p != dead {
			return false
		}
	}
	return w.from.queues[0].n == 0
}

// pastSteps adds what can happen to copies of k's older uses.
func (w *walker) pastSteps(i int, k key) {
	past := w.from.past[k]
	if past.removal.copies > 0 {
		w.try("a removal arrives of", i, func(s *state, _ *client) {
			w.c.release(s, k, past.removal.rev, successors{})
			s.past[k].removal = late{}
		})
		w.try("a removal is lost of", i, func(s *state, _ *client) { s.past[k].removal = late{} })
	}
	if past.copied != notCopied {
		w.may("a second copy of an enqueue arrives of", i, func(s *state, me *client) { w.copyArrives(s, me, k) })
	}
}

// copyArrives applies a second copy of an enqueue. What it puts has the value of the acquisition that sent it.
func (w *walker) copyArrives(s *state, me *client, k key) {
	p := &s.past[k]
	by := p.copied
	p.copied = notCopied
	if !s.sessions[w.c.session(k)].alive || s.cancel[k] || s.own(k) != 0 {
		return
	}
	s.rev++
	for n := range s.queues {
		if w.c.names(k).has(n) {
			s.queues[n].add(k, s.rev)
		}
	}
	present := k == w.c.key(s, k.owner()) && (me.pc == enqueuing || me.pc == settling)
	p.came = by == ofOlder || by == byProxy && !present
}

// inherits has client i continue with the number that its predecessor used last. A handle has no free numbers.
func (w *walker) inherits(s *state, me *client, i int) {
	for n := range maxAcquisitions {
		p := &s.past[i*maxAcquisitions+n+1]
		p.removal, p.copied = late{}, notCopied // they compare the session key
	}
	me.number.free, me.inherited = 0, true
	me.sure = w.c.Rules.ReuseInherited // no handle says what became of an enqueue
}

// removes is the removal of an acquisition, with Reuse. That of an enqueue which was answered compares the create
// revision. Any other deletes by name, and rules the enqueue out.
func (w *walker) removes(s *state, me *client, k key) (found bool) {
	if me.sure && !w.c.Rules.RemoveByName {
		return w.c.release(s, k, me.token, successors{})
	}
	found = s.own(k) != 0
	w.c.undo(s, k, me.tried)
	return found && w.c.Rules.RemoveByName
}

// sendsRemoval adds a removal that is late, and follows the client's own.
func (w *walker) sendsRemoval(i int, k key) {
	if w.from.past[k].removal.copies > 0 {
		return
	}
	w.may("sends a removal, which is late,", i, func(s *state, me *client) {
		rev := me.token
		if !me.sure || w.c.Rules.RemoveByName {
			rev = 0
		}
		s.past[k].removal = late{copies: 1, rev: rev}
	})
}

// forgetPast drops what can no longer matter of the numbers.
func (s *state) forgetPast(c Config) {
	for i := range c.Clients {
		me := &s.clients[i]
		if me.pc == done || me.pc == dead {
			me.number = numbers{}
		}
		for n := range me.number.freed {
			if c.Restores == 0 || !me.number.free.has(n) && !(me.number.again && int(me.number.now) == n) {
				me.number.freed[n] = 0
			}
		}
	}
	for k := key(1); int(k) <= len(c.Clients)*maxAcquisitions; k++ {
		p, rev, alive := &s.past[k], s.own(k), s.sessions[c.session(k)].alive
		if !alive { // refused whenever they arrive
			*p, s.inFlight[k], s.releases[k] = past{}, 0, late{}
		}
		if p.removal.rev != 0 && p.removal.rev != rev {
			p.removal = late{}
		}
		if r := s.releases[k]; r.rev != 0 && r.rev != rev {
			s.releases[k] = late{}
		}
		if s.cancel[k] {
			p.copied = notCopied
		}
		if s.retired(k) {
			p.marked, p.was = false, 0
			if rev == 0 && s.inFlight[k] == 0 && p.copied == notCopied {
				p.removal, s.releases[k], s.cancel[k] = late{}, late{}, false
			}
		}
		if c.Restores <= int(s.restores) {
			p.was = 0
		}
	}
}

// How many revisions s.revisions adds for each key and client.
const (
	perKey    = 3
	perClient = maxAcquisitions
)

// revisions adds to all the revisions that only Reuse has.
func (s *state) revisions(all []*uint8) []*uint8 {
	for k := range s.past {
		all = append(all, &s.releases[k].rev, &s.past[k].removal.rev, &s.past[k].was)
	}
	for i := range s.clients {
		for n := range s.clients[i].number.freed {
			all = append(all, &s.clients[i].number.freed[n])
		}
	}
	return all
}
