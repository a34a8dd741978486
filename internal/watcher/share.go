package watcher

// Watches of one key can share one creation at the server: a waiter watches for the
// deletion of the key before its own, and that key's owner, often on the same Hub, watches
// all its changes. The waiter's watch then rides on the owner's, its carrier.
//
// A watch rides only on one of its stream that has delivered nothing yet from the
// rider's first revision on, so that nothing is missed, and is told what its carrier is
// told. A carrier that is cancelled stays for its riders. When a carrier ends, or
// is refused by the server, its riders are created by themselves.

// offer makes w known to those that may ride on it. Caller holds mu.
func (h *Hub) offer(w *Watch) {
	if w.carries() && h.keys[w.span.key] == nil {
		h.keys[w.span.key] = w
	}
}

// carries reports whether w can have riders.
func (w *Watch) carries() bool { return w.span.end == "" && !w.span.deletions }

// withdraw is for a w that is cancelled or over: nobody begins to ride on it, and it
// rides no more. Caller holds mu.
func (h *Hub) withdraw(w *Watch) {
	if h.keys[w.span.key] == w {
		delete(h.keys, w.span.key)
	}
	w.walks()
}

// walks takes w out of the count of riders. Caller holds Hub.mu.
func (w *Watch) walks() {
	if w.rides {
		w.rides = false
		w.home.riders--
	}
}

// carrierHome is the stream of the watch that w may ride on; nil: there is none.
// Caller holds mu.
func (h *Hub) carrierHome(w *Watch) *stream {
	if c := h.keys[w.span.key]; c != nil && w.span.deletions && !c.home.gone {
		return c.home
	}
	return nil
}

// mount lets w, which is in no list, ride, if there is a carrier for it.
func (s *stream) mount(w *Watch) bool {
	if !w.span.deletions {
		return false
	}
	s.hub.mu.Lock()
	c := s.hub.keys[w.span.key]
	ok := w.counted && c != nil && c.home == s && c.isPlaced() && c.next <= w.next
	if ok {
		w.rides, c.carried = true, true
		s.riders++
	}
	s.hub.mu.Unlock()
	if !ok {
		return false
	}
	c.riders.push(w)
	w.place, w.carrier = riding, c
	if c.place == living {
		w.armed.Store(true)
	}
	return true
}

// sendOn gives w, which is in no list and came to ride, to a stream with room if
// there is none on this one.
func (s *stream) sendOn(w *Watch) bool {
	s.hub.mu.Lock()
	full := s.load-s.riders > perStream
	s.hub.mu.Unlock()
	if !full || !w.span.deletions || !s.hub.elsewhere(w, s, false) {
		return false
	}
	s.have--
	return true
}

// isPlaced reports whether the server has w, or will be asked to.
func (w *Watch) isPlaced() bool {
	return w.place == queued || w.place == asking || w.place == living
}

// alight takes w off its carrier, which goes too if it stayed for w alone.
func (s *stream) alight(w *Watch) {
	c := w.carrier
	w.carrier = nil
	c.riders.remove(w)
	if c.riders.head != nil {
		return
	}
	c.value = nil
	if c.over() {
		s.drop(c)
	}
}

// dismount has the riders of w created by themselves.
func (s *stream) dismount(w *Watch) {
	w.value = nil // what is put from now on is not noted
	for r := w.riders.pop(); r != nil; r = w.riders.pop() {
		r.carrier = nil
		s.hub.mu.Lock()
		r.walks()
		s.hub.mu.Unlock()
		s.queue.push(r)
	}
}

// acknowledged notes that a server acknowledged the creation of w.
func (w *Watch) acknowledged() {
	w.armed.Store(true)
	for r := w.riders.head; r != nil; r = r.after {
		r.armed.Store(true)
	}
}

// share gives the deletions among the events of w to its riders, with the value that was put last.
func (w *Watch) share(events []Event) {
	if !w.carries() {
		return
	}
	for _, ev := range events {
		if !ev.Deleted {
			if w.riders.head != nil {
				w.value = ev.Value
			}
			continue
		}
		ev.Value, w.value = w.value, nil
		for r := w.riders.head; r != nil; r = r.after {
			if ev.ModRevision >= r.next {
				r.next = ev.ModRevision + 1
				r.call(Update{Events: []Event{ev}, Revision: ev.ModRevision})
			}
		}
	}
}
