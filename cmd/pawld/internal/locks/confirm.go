package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lock"
)

// ErrNoTerm: Proclaim was called for a lock that is no election's term.
var ErrNoTerm = errors.New("request_id is no election's")

// Confirm reads from etcd whether a lock is held.
func (s *Service) Confirm(ctx context.Context, r Request, id string) (Lock, error) {
	return s.withHeld(r, id, func(h *held) error { return h.Confirm(ctx) })
}

// Proclaim changes the value of a term.
func (s *Service) Proclaim(ctx context.Context, r Request, id string, value []byte) (Lock, error) {
	return s.withHeld(r, id, func(h *held) error {
		if h.term == nil {
			return ErrNoTerm
		}
		return h.term.Proclaim(ctx, value)
	})
}

// withHeld calls do with what is held, and returns the lock as it is then. An unknown lock is not
// held.
func (s *Service) withHeld(r Request, id string, do func(h *held) error) (Lock, error) {
	ref := table.Ref{Session: r.Session, Request: id}
	notHeld := Lock{Listed: table.Listed{Ref: ref, State: table.Lost, Why: table.ErrNotHeld}}
	s.mu.Lock()
	defer s.unlock()
	if err := s.refused(r); err != nil {
		return notHeld, err
	}
	if err := s.table.Touch(r.Session, r.Identity, r.Arrival, clock.Now()); err != nil {
		return notHeld, unknownIsNone(err)
	}
	l, known := s.table.One(ref, r.Arrival, clock.Now())
	if p := s.parts[ref]; known && l.State == table.Held && p != nil {
		s.unlock()
		err := do(p.held)
		s.mu.Lock()
		if err := s.refused(r); err != nil {
			return notHeld, err
		}
		lost := errors.Is(err, lock.ErrLost) || errors.Is(err, elect.ErrLost)
		switch {
		case lost:
			s.table.Lose(ref, err, clock.Now())
		case errors.Is(err, ErrNoTerm):
			return Lock{}, err
		case err != nil && p.held.Err() == nil:
			return Lock{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		l, known = s.table.One(ref, r.Arrival, clock.Now())
	}
	switch {
	case !known || l.State == table.Waiting || l.State == table.Left || l.State == table.Released || l.State == table.Releasing:
		return notHeld, nil
	}
	return s.lock(l), nil
}
