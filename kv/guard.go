package kv

import (
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/kvinside"
)

var (
	// ErrFenced says that a guard failed: its lock is no longer held, and nothing was applied.
	ErrFenced = errors.New("fenced: the lock is no longer held")

	// ErrUnknown says that the transaction may have been applied, or may still be.
	ErrUnknown = cluster.ErrUnknown
)

// Guard is the condition "this lock is still held". It comes from a Held's or a Term's Guard
// method, stays the same for as long as that lives, and can be compared with ==. The zero Guard
// stands for no lock, and is refused.
type Guard struct {
	key    string
	token  fencing.Token
	holder kvinside.Holder
}

// check refuses a Guard that stands for no lock.
func (g Guard) check() error {
	if g.key == "" || g.token <= 0 {
		return errors.New("the zero Guard stands for no lock")
	}
	return nil
}

// lost returns why this process knows the lock to be lost; nil if it does not.
func (g Guard) lost() error {
	if g.holder == nil {
		return nil
	}
	if err := g.holder.Err(); err != nil {
		return fmt.Errorf("lock key %q: %w: %w", g.key, ErrFenced, err)
	}
	return nil
}
