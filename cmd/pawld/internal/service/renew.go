package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lock"
)

// leastPark is how long a Renew is parked at least if its client wants to wait. When max hold ends
// a lock soon, its validity stays short whatever is renewed.
const leastPark = 100 * time.Millisecond

// Renew keeps a session, and returns its locks. An unknown session has none. Unless something
// changes, it waits a while, but no longer than half of the shortest validity that it returns, or of
// what was left of one at its arrival (rule V10).
func (s *Service) Renew(ctx context.Context, r Request, settled []string) ([]Lock, error) {
	locks, err := s.renew(ctx, r, settled)
	for i, l := range locks {
		locks[i].Names = namesOf(l.Text) // without the mutex, because they may be many, and long
	}
	return locks, err
}

// renew is Renew without the names.
func (s *Service) renew(ctx context.Context, r Request, settled []string) ([]Lock, error) {
	s.mu.Lock()
	defer s.unlock()
	if err := s.refused(r); err != nil {
		return nil, err
	}
	if err := s.registry.Touch(r.Session, r.Identity, r.Arrival, clock.Now()); err != nil {
		return nil, unknownIsNone(err)
	}
	for _, id := range settled {
		if err := s.registry.Settle(registry.Ref{Session: r.Session, Request: id}); err != nil {
			return nil, err
		}
	}
	ttl := s.registry.TTL(r.Session)
	patience := s.registry.Patience(r.Session, r.Arrival, ttl)
	s.registry.Parks(r.Session, r.Wait > 0)
	if s.awaited[r.Session] {
		patience = 0
	}
	all := s.registry.All(r.Session, r.Arrival, clock.Now())
	if r.Wanted && s.asks(all) {
		patience = 0
	}
	shortest := registry.Shortest(all, ttl)
	all, err := s.parked(ctx, r, min(max(shortest/2, leastPark), patience), all)
	if err != nil {
		return nil, err
	}
	// A validity that has expired when its answer arrives is of no use. The lock ends soon, so wait for
	// that.
	if shortest = registry.Shortest(all, ttl); r.Arrival.Add(shortest).Before(clock.Now().Add(leastPark / 4)) {
		if all, err = s.parked(ctx, r, endOf(shortest), all); err != nil {
			return nil, err
		}
	}
	if ctx.Err() == nil { // otherwise nobody hears it
		s.registry.Answered(r.Arrival, all...)
		s.comes(r)
	}
	locks := make([]Lock, 0, len(all))
	for _, l := range all {
		locks = append(locks, s.nameless(l))
		if p := s.parts[l.Ref]; p != nil && p.wanted && ctx.Err() == nil {
			p.notified = true
		}
	}
	slices.SortFunc(locks, func(a, b Lock) int { return strings.Compare(a.Ref.Request, b.Ref.Request) })
	return locks, nil
}

// parked parks a Renew whose answer would be all, unless something is lost, until d after its
// arrival at most, and then returns its answer. s.mu is held.
func (s *Service) parked(ctx context.Context, r Request, d time.Duration, all []registry.Listed) ([]registry.Listed, error) {
	if anyLost(all) {
		return all, nil
	}
	park := newParking(ctx, r, d)
	woken := s.park(ctx, park.until(clock.Now(), r.Arrival), r.Session)
	if err := s.refused(r); err != nil {
		return nil, err
	}
	if !woken && ctx.Err() != nil {
		return all, nil
	}
	return s.registry.All(r.Session, r.Arrival, clock.Now()), nil
}

// endOf is how long what gave a client this validity lasts.
func endOf(validity time.Duration) time.Duration {
	return (validity+time.Millisecond)*6/5 + time.Millisecond
}

// unknownIsNone turns the error of an unknown session into nil, for calls whose answer then has
// no locks.
func unknownIsNone(err error) error {
	var e *registry.Error
	if errors.As(err, &e) && (e.Code == registry.Unknown || e.Code == registry.Ended) {
		return nil
	}
	return err
}

func anyLost(all []registry.Listed) bool {
	return slices.ContainsFunc(all, func(l registry.Listed) bool { return l.State == registry.Lost })
}

func isBusy(err error) bool { return errors.Is(err, lock.ErrBusy) || errors.Is(err, elect.ErrBusy) }
