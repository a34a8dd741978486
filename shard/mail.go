package shard

import "sync"

// A mail has functions that other goroutines want a loop to call.
type mail struct {
	news chan struct{} // holds one element when there is something to do

	mu  sync.Mutex
	all []func()
}

func newMail() *mail { return &mail{news: make(chan struct{}, 1)} }

// post has do called in the loop's goroutine.
func (m *mail) post(do func()) {
	m.mu.Lock()
	m.all = append(m.all, do)
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// take returns what was posted.
func (m *mail) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}
