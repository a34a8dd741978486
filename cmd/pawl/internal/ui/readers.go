package ui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// These bound what is kept for readers that were disconnected, and for slow ones.
const (
	maxKept    = 4 << 20 // bytes
	maxStreams = 64
	maxBehind  = 32 // messages
)

// A message is one server-sent event.
type message struct {
	number int64
	frame  []byte
}

// A reader is one stream. Its channel is closed when the reader is too slow, or
// the hub closed.
type reader struct{ frames chan []byte }

// publish sends a message to all readers, and keeps it. Caller holds mu.
func (h *hub) publish(event string, what any) {
	h.number++
	m := message{h.number, h.frame(h.number, event, what)}
	h.kept = append(h.kept, m)
	for h.weight += len(m.frame); h.weight > maxKept; h.kept = h.kept[1:] {
		h.weight -= len(h.kept[0].frame)
	}
	for r := range h.readers {
		select {
		case r.frames <- m.frame:
		default: // it reconnects, with the number that it has
			h.drop(r)
		}
	}
}

// frame is a server-sent event, whose JSON has no line breaks.
func (h *hub) frame(number int64, event string, what any) []byte {
	data, _ := json.Marshal(what) // of plain fields: cannot fail
	return fmt.Appendf(nil, "id: %s-%d\nevent: %s\ndata: %s\n\n", h.boot, number, event, data)
}

// drop ends a reader. Caller holds mu.
func (h *hub) drop(r *reader) {
	if h.readers[r] {
		delete(h.readers, r)
		close(r.frames)
	}
}

// join adds a reader that has received the messages up to last. first is what to send before
// others. The reader is nil if there are too many, or the hub is closed.
func (h *hub) join(last string) (first [][]byte, r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.readers) >= maxStreams {
		return nil, nil
	}
	r = &reader{make(chan []byte, maxBehind)}
	h.readers[r] = true
	if missed, ok := h.after(last); ok {
		return missed, r
	}
	return [][]byte{h.frame(h.number, "state", h.snapshot())}, r
}

// after returns the kept messages after last. It returns false if some later ones are not kept, or
// if last is not this hub's.
func (h *hub) after(last string) (frames [][]byte, ok bool) {
	boot, count, _ := strings.Cut(last, "-")
	n, err := strconv.ParseInt(count, 10, 64)
	oldest := h.number + 1 - int64(len(h.kept))
	if boot != h.boot || err != nil || n+1 < oldest || n > h.number {
		return nil, false
	}
	for _, m := range h.kept[n+1-oldest:] {
		frames = append(frames, m.frame)
	}
	return frames, true
}

func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(r)
}

// watched reports whether there is a reader.
func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.readers) > 0
}

// close ends all readers, and prevents others from joining.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		h.drop(r)
	}
}
