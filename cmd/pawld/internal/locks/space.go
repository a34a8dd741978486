package locks

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
)

// AwaitSpace waits while etcd is out of space (NOSPACE), because a successor could then take nothing
// over. full is called once if it has to wait. It returns false if ctx ended and etcd is still out
// of space. It is called before Drain, so that clients are served meanwhile. Other errors of etcd's
// are no reason to begin to wait, because a successor tries again for as long as the lease lasts, nor
// to end it, because they do not say that there is space. A question takes limit at most.
func (s *Service) AwaitSpace(ctx context.Context, limit time.Duration, full func()) bool {
	waited := false
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, limit)
		err := s.rehearse(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			continue
		case cluster.IsNoSpace(err) && !waited:
			waited = true
			full()
		case err == nil || !waited:
			return true
		}
		backoff.Sleep(ctx, spaceProbe)
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
	return inside.SessionOf(own).Rehearse(ctx)
}
