package wire

import (
	"sync"
	"time"
)

// A Link is one direction of the network between all clients and one member. What is written while
// it is held, or before its delay has passed, arrives later.
type Link struct {
	mu      sync.Mutex
	held    bool
	delay   func() time.Duration // no delay if nil
	changed chan struct{}        // closed and replaced at each change of held
}

// NewLink returns a Link without delay.
func NewLink() *Link { return &Link{changed: make(chan struct{})} }

// Hold keeps back what is on its way and what is written later, until Hold(false).
func (l *Link) Hold(held bool) {
	l.mu.Lock()
	l.held = held
	changed := l.changed
	l.changed = make(chan struct{})
	l.mu.Unlock()
	close(changed)
}

// SetDelay delays each later write by what d returns for it, or not at all if d is nil.
func (l *Link) SetDelay(d func() time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *Link) state() (held bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.changed
}

// arrival is when bytes written now can be read. The zero time means at once.
func (l *Link) arrival() time.Time {
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if delay == nil {
		return time.Time{}
	}
	return time.Now().Add(delay())
}
