package watcher

// sends is memory for what the table wants to be sent, which is used again.
type sends struct {
	topics  []*topic
	asked   []creation
	cancels []int64
}

// creation is what is sent for a topic.
type creation struct {
	id, from int64
	span     span
	wide     bool
}

// send sends what is due.
func (s *stream) send() {
	if s.link.grpc == nil {
		return
	}
	h, out := s.hub, &s.sends
	h.mu.Lock()
	out.topics = s.table.create(out.topics[:0])
	out.asked = out.asked[:0]
	for _, t := range out.topics {
		out.asked = append(out.asked, creation{t.id, t.next, t.span, t.wide})
	}
	out.cancels, s.table.cancels = s.table.cancels, out.cancels[:0]
	h.mu.Unlock()
	for _, c := range out.asked {
		s.link.create(c)
	}
	for _, id := range out.cancels {
		s.link.cancelWatch(id)
	}
	if len(out.asked) > 0 {
		s.pulse.ask()
	}
	if cap(out.asked) > kept {
		*out = sends{}
		return
	}
	clear(out.topics)
	clear(out.asked)
}

// kept is how much of a stream's memory for messages is kept for the next ones.
const kept = 16
