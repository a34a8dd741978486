package queue

import (
	"context"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// A turn is a right that one goroutine has at a time. It contains an element while a goroutine
// has it.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits until the turn is free, or ctx ends. It takes a free turn even if ctx has ended.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return cluster.EndOf(ctx)
	}
}

// end ends the turn, so that another can take it.
func (t turn) end() { <-t }
