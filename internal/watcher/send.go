package watcher

import "time"

// sends is memory for what the table wants to send, which is reused.
type sends struct {
	watches   []*Watch
	creations []creation
	cancels   []int64
}

// creation is the message sent for a watch.
type creation struct {
	id, from  int64 // from 0: from the present on
	span      span
	deletions bool
}

// send sends what is due.
func (s *stream) send() {
	if s.link.grpc == nil {
		return
	}
	h, out := s.hub, &s.sends
	h.mu.Lock()
	out.watches = s.table.create(out.watches[:0])
	out.creations = out.creations[:0]
	for _, w := range out.watches {
		out.creations = append(out.creations, creation{w.id, w.start(), w.span, w.deletions})
	}
	out.cancels, s.table.cancels = s.table.cancels, out.cancels[:0]
	h.mu.Unlock()
	for _, c := range out.creations {
		s.link.create(c)
	}
	for _, id := range out.cancels {
		s.link.cancelWatch(id)
	}
	if len(out.creations) > 0 {
		s.pulse.sent(time.Now()) // sending may have taken a while
	}
	if cap(out.creations) > kept {
		*out = sends{}
		return
	}
	clear(out.watches)
	clear(out.creations)
}

// kept is how much of a stream's memory for messages is kept for reuse.
const kept = 16
