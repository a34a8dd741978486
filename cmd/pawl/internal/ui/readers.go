package ui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The bounds of what is kept for those who were away, and for those who are slow.
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
// the feed closed.
type reader struct{ frames chan []byte }

// publish sends a message to all readers, and keeps it. Caller holds mu.
func (f *feed) publish(event string, what any) {
	f.number++
	m := message{f.number, f.frame(f.number, event, what)}
	f.kept = append(f.kept, m)
	for f.weight += len(m.frame); f.weight > maxKept; f.kept = f.kept[1:] {
		f.weight -= len(f.kept[0].frame)
	}
	for r := range f.readers {
		select {
		case r.frames <- m.frame:
		default: // it reconnects, with the number that it has
			f.drop(r)
		}
	}
}

// frame is a server-sent event, whose JSON has no line breaks.
func (f *feed) frame(number int64, event string, what any) []byte {
	data, _ := json.Marshal(what) // of plain fields: cannot fail
	return fmt.Appendf(nil, "id: %s-%d\nevent: %s\ndata: %s\n\n", f.boot, number, event, data)
}

// drop ends a reader. Caller holds mu.
func (f *feed) drop(r *reader) {
	if f.readers[r] {
		delete(f.readers, r)
		close(r.frames)
	}
}

// join adds a reader that has seen up to last. first is what it must be sent
// before. A nil reader: there are too many, or the feed is closed.
func (f *feed) join(last string) (first [][]byte, r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.readers) >= maxStreams {
		return nil, nil
	}
	r = &reader{make(chan []byte, maxBehind)}
	f.readers[r] = true
	if missed, ok := f.after(last); ok {
		return missed, r
	}
	return [][]byte{f.frame(f.number, "state", f.snapshot())}, r
}

// after are the kept messages after last; false: some that came after are not
// kept, or last is none of ours.
func (f *feed) after(last string) (frames [][]byte, ok bool) {
	boot, count, _ := strings.Cut(last, "-")
	n, err := strconv.ParseInt(count, 10, 64)
	oldest := f.number + 1 - int64(len(f.kept))
	if boot != f.boot || err != nil || n+1 < oldest || n > f.number {
		return nil, false
	}
	for _, m := range f.kept[n+1-oldest:] {
		frames = append(frames, m.frame)
	}
	return frames, true
}

func (f *feed) leave(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(r)
}

// watched reports whether anybody follows.
func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers) > 0
}

// close ends all readers, and lets no other join.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for r := range f.readers {
		f.drop(r)
	}
}
