package shard

import (
	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/lock"
)

// A Held is one hold of a shard. It is a hold of the shard's lock, with the methods of lock.Held. A
// Release in the middle of work has the effect of work's return.
type Held struct {
	*lock.Held
	shard int
}

// Shard is the shard's number, starting at 0.
func (h *Held) Shard() int { return h.shard }

func newHeld(a *queue.Acquisition, s *pawl.Session, shard int) *Held {
	return &Held{hooks.HeldOf(a, s).(*lock.Held), shard}
}
