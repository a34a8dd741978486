package session

import "sync"

// Layouts are the queues for which a client has read the keys of the other layout. The zero
// Layouts is empty and ready. It is safe for concurrent use.
type Layouts struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// mostLayouts bounds how many queues a client reads for, and so its memory and its requests.
const mostLayouts = 100

// First reports whether it is called with prefix for the first time, and there is room for it.
func (l *Layouts) First(prefix string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) == mostLayouts {
		return false
	}
	if l.seen == nil {
		l.seen = make(map[string]struct{})
	}
	before := len(l.seen)
	l.seen[prefix] = struct{}{}
	return len(l.seen) > before
}

// Forget undoes First for prefix, because its keys could not be read.
func (l *Layouts) Forget(prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, prefix)
}
