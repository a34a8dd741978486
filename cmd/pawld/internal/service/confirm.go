package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lock"
)

// ErrNoTerm reports that Proclaim was called for a lock that is no election's term.
var ErrNoTerm = errors.New("request_id is no election's")

// Confirm reads from etcd whether a lock is held.
func (s *Service) Confirm(ctx context.Context, r Request, id string) (Lock, error) {
	return s.withHeld(r, id, func(*part) error { return nil }, func(h *held) error { return h.Confirm(ctx) })
}

// Progress reports progress of a lock that has a Stall. It counts from now, which is not before the request's
// arrival.
func (s *Service) Progress(r Request, id string) (Lock, error) {
	noted := func(p *part) error { p.progress = clock.Now(); return nil }
	return s.withHeld(r, id, noted, func(h *held) error { return h.Progress() })
}

// Proclaim changes the value of a term, unless may refuses its name, because a term that was taken
// over may be of a name that a newer policy does not allow.
func (s *Service) Proclaim(ctx context.Context, r Request, id string, value []byte, may func(name string) error) (Lock, error) {
	allowed := func(p *part) error {
		if p.held.term == nil {
			return ErrNoTerm
		}
		return may(p.want.Names[0])
	}
	return s.withHeld(r, id, allowed, func(h *held) error { return h.term.Proclaim(ctx, value) })
}

// withHeld calls do with what is held, if allowed returns nil for it, and returns the lock as it is
// afterwards. An unknown lock is not held. allowed is called with s.mu held.
func (s *Service) withHeld(r Request, id string, allowed func(p *part) error, do func(h *held) error) (Lock, error) {
	ref := registry.Ref{Session: r.Session, Request: id}
	notHeld := Lock{Listed: registry.Listed{Ref: ref, State: registry.Lost, Why: registry.ErrNotHeld}}
	s.mu.Lock()
	defer s.unlock()
	if err := s.refused(r); err != nil {
		return notHeld, err
	}
	if err := s.registry.Touch(r.Session, r.Identity, r.Arrival, clock.Now()); err != nil {
		return notHeld, unknownIsNone(err)
	}
	l, known := s.registry.One(ref, r.Arrival, clock.Now())
	if p := s.parts[ref]; known && l.State == registry.Held && p != nil {
		if err := allowed(p); err != nil {
			return Lock{}, err
		}
		s.unlock()
		err := do(p.held)
		s.mu.Lock()
		if err := s.refused(r); err != nil {
			return notHeld, err
		}
		lost := errors.Is(err, lock.ErrLost) || errors.Is(err, elect.ErrLost)
		switch {
		case s.parts[ref] != p: // released meanwhile, and the row may be another acquisition's
			return notHeld, nil
		case lost:
			s.registry.Lose(ref, err, clock.Now())
		case err != nil && p.held.Err() == nil:
			return Lock{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		l, known = s.registry.One(ref, r.Arrival, clock.Now())
	}
	switch {
	case !known || l.State == registry.Waiting || l.State == registry.Left || l.State == registry.Released || l.State == registry.Releasing:
		return notHeld, nil
	}
	return s.lock(l), nil
}
