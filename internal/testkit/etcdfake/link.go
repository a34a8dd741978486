package etcdfake

import (
	"sync"
	"time"
)

// link is the network between all clients and one member, one direction. What
// is written while it is held, or before its delay has passed, arrives later.
type link struct {
	mu      sync.Mutex
	held    bool
	delay   func() time.Duration // nil: none
	changed chan struct{}        // closed and replaced at each change of held
}

func newLink() *link { return &link{changed: make(chan struct{})} }

func (l *link) hold(held bool) {
	l.mu.Lock()
	l.held = held
	changed := l.changed
	l.changed = make(chan struct{})
	l.mu.Unlock()
	close(changed)
}

func (l *link) setDelay(d func() time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *link) state() (held bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.changed
}

// arrival is when bytes written now can be read; zero: at once.
func (l *link) arrival() time.Time {
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if delay == nil {
		return time.Time{}
	}
	return time.Now().Add(delay())
}
