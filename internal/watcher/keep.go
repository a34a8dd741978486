package watcher

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// create sends the creations of the watches in the queue, as many as may be unanswered.
func (s *stream) create() {
	if s.link.grpc == nil {
		return
	}
	for w := s.queue.head; w != nil; w = s.queue.head {
		if len(s.asks) > 0 && s.asked+w.span.size() > maxUnanswered {
			return
		}
		s.queue.remove(w)
		if w.over() && w.riders.head == nil {
			s.have-- // its cancellation finds it nowhere
			continue
		}
		if s.mount(w) || s.sendOn(w) {
			continue
		}
		w.place = asking
		s.ask(asked{s.link.create(w), w, w.span.size()})
	}
}

// ask notes a creation that was sent.
func (s *stream) ask(a asked) {
	if len(s.asks) == 0 {
		s.pulse.asked = time.Now()
	}
	s.asks = append(s.asks, a)
	s.asked += a.bytes
}

// take takes over the watches that were added, and drops those that were cancelled.
func (s *stream) take() {
	h := s.hub
	h.mu.Lock()
	added, dropped := s.added, s.dropped
	s.added, s.dropped, s.sweeps = s.taken[0][:0], s.taken[1][:0], false
	h.mu.Unlock()
	for _, w := range added {
		s.have++
		s.queue.push(w)
		if err := w.span.check(); err != nil {
			s.finish(w, Update{Err: err})
		}
	}
	for _, w := range dropped {
		s.drop(w)
	}
	clear(added)
	clear(dropped)
	s.taken = [2][]*Watch{added, dropped}
}

// drop lets go of w wherever it is, and tells the server if that may have it. One
// that has riders stays for them.
func (s *stream) drop(w *Watch) {
	if w.riders.head != nil {
		return
	}
	switch w.place {
	case nowhere: // moved on, or already noticed
		return
	case riding:
		s.alight(w)
	case queued:
		s.queue.remove(w)
	case asking:
		s.asks[s.askedFor(w.id)].watch = nil // the answer, if it is an acknowledgement, is followed by a cancel
	case living:
		s.link.cancelWatch(w.id)
		delete(s.live, w.id)
		delete(s.held, w.id)
	case delayed:
		s.later = slices.DeleteFunc(s.later, func(p postponed) bool { return p.watch == w })
	}
	w.place, w.id = nowhere, 0
	s.have--
}

// finish ends w with u.
func (s *stream) finish(w *Watch, u Update) {
	s.dismount(w)
	s.drop(w)
	s.hub.mu.Lock()
	s.hub.leave(w)
	s.hub.mu.Unlock()
	w.last(u)
}

// requeue puts the watches of a link that ended back into the queue, as they were created.
func (s *stream) requeue() {
	for _, id := range slices.Sorted(maps.Keys(s.live)) {
		w := s.live[id]
		w.id = 0
		s.queue.push(w)
	}
	clear(s.live)
	for _, a := range s.asks {
		if a.watch != nil {
			a.watch.id = 0
			s.queue.push(a.watch)
		}
	}
	s.asks, s.asked, s.held = nil, 0, nil
}

// retryLater moves the watches whose delay is over to another stream, and returns when the next one's is.
func (s *stream) retryLater(now time.Time) (next time.Time) {
	if len(s.later) == 0 {
		return next
	}
	due := s.later
	s.later = nil
	for _, p := range due {
		if now.Before(p.until) {
			s.later = append(s.later, p)
			next = sooner(next, p.until)
			continue
		}
		p.watch.place = nowhere
		if s.hub.elsewhere(p.watch, s, p.denied) {
			s.have--
		} else {
			s.queue.push(p.watch) // the Hub is closed: end tells it
		}
	}
	return next
}

// end ends all watches, with the cluster's error or that of a closed Hub.
func (s *stream) end() {
	h := s.hub
	err := h.cluster.Err()
	if err == nil {
		err = cluster.ErrClosed
	}
	h.mu.Lock()
	h.forget(s)
	h.mu.Unlock()
	s.take()
	for _, p := range s.later {
		s.queue.push(p.watch)
	}
	s.later = nil
	for w := s.queue.head; w != nil; w = s.queue.head {
		s.finish(w, Update{Err: err})
	}
}
