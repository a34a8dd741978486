package service

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
)

// AwaitSpace waits while etcd is out of space (NOSPACE), because a successor could then take nothing
// over. full is called once if it has to wait. It returns false if it had to wait, and etcd has not
// said that it has space when ctx ends. It is called before Drain, so that clients are served
// meanwhile. Other errors of etcd's are no reason to begin to wait, because a successor tries again
// for as long as the lease lasts, nor to end it, because they do not say that there is space. A
// question takes limit at most; if the first is not answered within it, it is asked up to twice more.
func (s *Service) AwaitSpace(ctx context.Context, limit time.Duration, full func()) bool {
	waited := false
	for silent := 0; ctx.Err() == nil; backoff.Sleep(ctx, spaceProbe) {
		within, cancel := context.WithTimeout(ctx, limit)
		err := s.rehearse(within)
		late := within.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			return true
		case cluster.IsNoSpace(err) && !waited:
			waited = true
			full()
		case waited:
		case late && silent < 2:
			silent++
		default:
			return true
		}
	}
	return !waited
}

// rehearse returns why no successor could take the session over now. It returns nil if one could,
// or if there is no session.
func (s *Service) rehearse(ctx context.Context) error {
	if !s.own.Enter(ctx) {
		return nil // one is being made, and nothing is held on it
	}
	own := s.session
	s.own.Leave()
	if own == nil || own.Err() != nil {
		return nil
	}
	return hooks.SessionOf(own).Rehearse(ctx)
}
