package service

import (
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
)

// A Process is the process at the other end of a connection.
type Process interface {
	Wait() (exited bool) // waits until it exits, or until Close
	Close()
}

// A binding is the one process that uses a session.
type binding struct {
	pid  int           // no other process has this number before this one has exited
	from clock.Instant // until then another process may believe in what was promised before
	Process
}

// bound refuses a request of another process on a session that is bound to one, because what is
// promised to it would end with the process that the session is bound to. s.mu is held.
func (s *Service) bound(r Request) error {
	if b := s.bindings[r.Session]; b != nil && b.pid != r.PID {
		return &registry.Error{Code: registry.Denied, Text: "session is bound to another process"}
	}
	return nil
}

// refused is why nothing may be promised, or changed, for a request: pawld stops, or the session is
// bound to another process. It is called first, and again after each wait. s.mu is held.
func (s *Service) refused(r Request) error {
	if s.stopping() {
		return ErrStopping
	}
	return s.bound(r)
}

// bind binds the session of a request that asks for it to the request's process. s.mu is held.
func (s *Service) bind(r Request) error {
	if r.Bind == nil || s.bindings[r.Session] != nil {
		return nil
	}
	p, err := r.Bind()
	if err != nil {
		return err
	}
	b := &binding{pid: r.PID, Process: p}
	if len(s.registry.Requests(r.Session)) > 0 {
		b.from = clock.Now().Add(s.registry.TTL(r.Session))
	}
	s.bindings[r.Session] = b
	s.wake(r.Session) // what another process waits for is refused
	s.work.Add(1)
	go func() { // returns when it exits, or unbind is called
		defer s.work.Done()
		exited := b.Wait()
		b.Close()
		if !exited || !session.AwaitInstant(s.life, b.from) {
			return
		}
		s.mu.Lock()
		if s.bindings[r.Session] == b {
			delete(s.bindings, r.Session)
			s.registry.Exited(r.Session, clock.Now())
		}
		s.unlock()
	}()
	return nil
}

// unbind ends the bindings of the sessions for which ended returns true. s.mu is held.
func (s *Service) unbind(ended func(session string) bool) {
	for id, b := range s.bindings {
		if ended(id) {
			delete(s.bindings, id)
			b.Close()
		}
	}
}
