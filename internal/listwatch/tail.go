package listwatch

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// The bounds of a Tail's content.
const (
	maxEvents = 4096
	maxBytes  = 16 << 20
)

// Keys are the keys of a Tail: [Key, End), or only Key if End is empty.
type Keys struct{ Key, End string }

// Changes are the events of one message, and when it arrived.
type Changes struct {
	Events []watcher.Event
	At     time.Time
}

// A Tail holds what a watch delivers until it is taken. Its methods are safe for concurrent
// use, except that Peek and Drop are called by one goroutine at a time.
type Tail struct {
	hub   *watcher.Hub
	keys  Keys
	strip func(*watcher.Event)
	news  chan<- struct{}

	mu            sync.Mutex
	next          int64 // the revision after the last event held
	watch         *watcher.Watch
	generation    int  // of the watch, counted from 1
	paused        bool // watch ended because too much is held
	closed        bool
	held          []Changes
	events, bytes int
	gap           int64
	err           error
}

// Open begins a Tail of keys, starting at revision from. When Peek has something new to return, the
// Tail sends to news without waiting, so news should have room for one element. strip, unless nil, is
// called with each event before it is held, and may remove what the reader does not need. The caller
// has to Close the Tail.
func Open(hub *watcher.Hub, keys Keys, from int64, news chan<- struct{}, strip func(*watcher.Event)) *Tail {
	t := &Tail{hub: hub, keys: keys, strip: strip, news: news, next: from}
	t.resume()
	return t
}

// resume watches starting at revision next.
func (t *Tail) resume() {
	t.mu.Lock()
	t.generation++
	t.paused = false
	generation, from := t.generation, t.next
	t.mu.Unlock()
	w := t.hub.Watch(t.keys.Key, t.keys.End, from, func(u watcher.Update) { t.take(generation, u) }) // may call take before it returns
	t.mu.Lock()
	t.watch = w
	unwanted := t.closed || t.paused
	t.mu.Unlock()
	if unwanted {
		w.Cancel()
	}
}

// take is called by the watch of this generation. A call of an earlier watch may come late.
func (t *Tail) take(generation int, u watcher.Update) {
	t.mu.Lock()
	if t.closed || t.paused || generation != t.generation {
		t.mu.Unlock()
		return
	}
	if len(u.Events) > 0 {
		t.hold(u)
	}
	t.gap, t.err = max(t.gap, u.Compacted), u.Err
	if t.events > maxEvents || t.bytes > maxBytes {
		t.paused = true
		if t.watch != nil { // nil, or the previous watch: resume cancels this one
			t.watch.Cancel()
		}
	}
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default: // the reader has been woken already
	}
}

// hold adds the events of u. Caller holds mu.
func (t *Tail) hold(u watcher.Update) {
	events := u.Events
	if t.strip != nil {
		events = slices.Clone(events) // other watches may share them
		for i := range events {
			t.strip(&events[i])
		}
	}
	t.held = append(t.held, Changes{events, time.Now()})
	t.events += len(events)
	t.bytes += weight(events)
	t.next = u.Revision + 1
}

// Peek returns what is held, the oldest first, and what ended the Tail after that, which is a gap up to
// a revision, or an error.
func (t *Tail) Peek() (held []Changes, gap int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held, t.gap, t.err
}

// Drop removes the oldest element of what is held.
func (t *Tail) Drop() {
	t.mu.Lock()
	first := t.held[0]
	t.held[0] = Changes{}
	t.held = t.held[1:]
	t.events -= len(first.Events)
	t.bytes -= weight(first.Events)
	again := t.paused && len(t.held) == 0 && !t.closed
	t.mu.Unlock()
	if again {
		t.resume()
	}
}

// Close ends the watch. It can be called again.
func (t *Tail) Close() {
	t.mu.Lock()
	t.closed = true
	w := t.watch
	t.mu.Unlock()
	w.Cancel()
}

func weight(events []watcher.Event) (bytes int) {
	for _, e := range events {
		bytes += len(e.Key) + len(e.Value)
	}
	return bytes
}
