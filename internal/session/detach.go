package session

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/lease"
)

// Detach ends the session in this process, with all its dependents and with ErrClosed, before it
// returns. It leaves the lease and its keys to the process that resumes the Handle. It returns the zero
// Handle if the session had already ended.
func (s *Session) Detach() lease.Handle {
	return s.DetachKeeping(func() map[string]bool { return nil })
}

// DetachKeeping is Detach for a process that holds on behalf of others, who may still believe that they
// hold what it has lost. kept is called after the session's end, and returns keys that the successor
// must not remove at once. The successor has to resume or discard them, like those that are held.
func (s *Session) DetachKeeping(kept func() map[string]bool) lease.Handle {
	if s.Err() != nil {
		return lease.Handle{}
	}
	if err := fmt.Errorf("%w: detached", lease.ErrClosed); s.end(err, handOver) != err {
		return lease.Handle{}
	}
	<-s.stopped // so that this process renews nothing more
	return handleOf(s.state(kept()))
}

// state is what the session's successor has to know. The successor does not have to remove the entries
// with keys in kept.
func (s *Session) state(kept map[string]bool) detached.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := detached.State{
		Lease: s.id, Cluster: s.host.Cluster.ID(), TTL: s.TTL(), LockDelay: s.validity.delay,
		Key: s.own.key, Create: s.own.create, Mod: s.own.mod, Next: s.book.next, Lost: s.book.losses(),
	}
	state.ToRemove, state.Held = s.book.toRemove(kept)
	if state.Kept = s.book.keeps(clock.Now()); len(state.Kept) > 0 {
		state.At = time.Now().Add(time.Millisecond - 1).Truncate(time.Millisecond) // or the keys would go earlier
	}
	return state
}

func handleOf(state detached.State) (h lease.Handle) {
	if err := h.UnmarshalText([]byte(state.Text())); err != nil {
		panic(err.Error()) // Parse accepts every session's state
	}
	return h
}

func stateOf(h lease.Handle) (detached.State, error) {
	text, err := h.MarshalText()
	if err != nil {
		return detached.State{}, err
	}
	return detached.Parse(string(text))
}
