package queue

import (
	"context"
	"sync"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// A turn is a right that one goroutine has at a time. The zero turn is free. It allocates only
// if a goroutine has to wait.
type turn struct {
	mu    sync.Mutex
	taken bool
	ended chan struct{} // closed when the turn ends; made by the first waiter
}

// take waits until the turn is free, or ctx ends.
func (t *turn) take(ctx context.Context) error {
	for {
		t.mu.Lock()
		if !t.taken {
			t.taken = true
			t.mu.Unlock()
			return nil
		}
		if t.ended == nil {
			t.ended = make(chan struct{})
		}
		ended := t.ended
		t.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return cluster.EndOf(ctx)
		}
	}
}

// end ends the turn, so that another can take it.
func (t *turn) end() {
	t.mu.Lock()
	ended := t.ended
	t.taken, t.ended = false, nil
	t.mu.Unlock()
	if ended != nil {
		close(ended)
	}
}
