package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/lock"
)

// A Result is the result of releasing one lock.
type Result struct {
	Request  string
	Released bool // it was held until now
	Why      error
}

// Release releases locks and gives up positions, or, with no ids, everything of the session, which
// then ends. It waits until each is decided. An error that matches ErrUnavailable means that some
// are not decided yet, and continue in the background. Another call waits again.
func (s *Service) Release(ctx context.Context, r Request, ids []string) ([]Result, error) {
	s.mu.Lock()
	defer s.unlock()
	if err := s.refused(r); err != nil {
		return nil, err
	}
	now := clock.Now()
	if err := s.registry.OpenForRelease(r.Session, r.Identity, r.Arrival, now); err != nil {
		return nil, unknownIsNone(err) // a session that has ended has nothing left
	}
	refs := s.registry.Requests(r.Session)
	if len(ids) > 0 {
		refs = refs[:0]
		for _, id := range ids {
			refs = append(refs, registry.Ref{Session: r.Session, Request: id})
		}
	}
	for _, ref := range refs { // begin all releases before waiting for any
		if st, _ := s.registry.Release(ref, now); st == registry.Releasing {
			s.release(ref)
		}
		s.freeRest(ref)
	}
	s.wake(r.Session) // no parked Renew waits for what is released
	results := make([]Result, 0, len(refs))
	for _, ref := range refs {
		result, err := s.outcome(ctx, ref)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	if err := s.bound(r); err != nil {
		return nil, err // what the session has now belongs to that process
	}
	if len(ids) == 0 {
		s.registry.Ended(r.Session)
		s.wake(r.Session)
		s.unbind(func(session string) bool { return session == r.Session })
	}
	return results, nil
}

// release begins the release of a row in state Releasing, once. s.mu is held.
func (s *Service) release(ref registry.Ref) {
	p := s.parts[ref]
	if p.released != nil {
		return
	}
	p.released = make(chan struct{})
	s.work.Add(1)
	go func() { // returns when it is decided, or life ends
		defer s.work.Done()
		pause := backoff.Quick()
		for s.life.Err() == nil { // the engine tries, too: what is refused is not requested again without a pause
			ctx, cancel := context.WithTimeout(s.life, 5*time.Second)
			err := p.held.back(ctx)
			if p.again && errors.Is(err, lock.ErrKeyDeleted) { // by the predecessor's release, or with its lease
				own := hooks.SessionOf(p.held.Session())
				if shown := own.Examine(ctx); shown == nil || own.Err() == nil {
					err = shown
				}
			}
			cancel()
			if err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, elect.ErrLost) {
				s.mu.Lock()
				s.registry.Released(ref, err)
				delete(s.parts, ref)
				p.lost = err
				if err != nil {
					s.wake(ref.Session)
				}
				s.unlock()
				close(p.released)
				return
			}
			pause.Sleep(s.life)
		}
	}()
}

// outcome waits for the result of a row's release. s.mu is held.
func (s *Service) outcome(ctx context.Context, ref registry.Ref) (Result, error) {
	if p := s.parts[ref]; p != nil && p.released != nil {
		s.unlock()
		late := time.NewTimer(5 * time.Second)
		defer late.Stop()
		select {
		case <-p.released:
			s.mu.Lock()
			return Result{ref.Request, p.lost == nil, p.lost}, nil // its session may have been dropped meanwhile
		case <-late.C:
		case <-ctx.Done():
		case <-s.draining:
		}
		s.mu.Lock()
	}
	st, why := s.registry.Release(ref, clock.Now())
	if st == registry.Releasing {
		return Result{}, fmt.Errorf("%w: the release of %s is not confirmed yet, and goes on: call again", ErrUnavailable, ref.Request)
	}
	return Result{ref.Request, st == registry.Released, why}, nil
}
