package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
)

// A Request is what each call on a session has in common.
type Request struct {
	Session  string
	Identity string
	Arrival  clock.Instant // when it arrived
	Wait     time.Duration // how long the answer may take
	PID      int           // of the process that sent it; 0 if not known
	Wanted   bool          // of a Renew whose answers are to say which locks are wanted

	// Bind opens the process that the session is to be bound to. It is nil if binding is not
	// requested.
	Bind func() (Process, error)
}

// A Lock is a lock in an answer.
type Lock struct {
	registry.Listed
	Names []string
	Token int64
	Keys  []string
	Slot  int // of a semaphore

	Wanted bool // somebody has come to wait behind it; known only if its client asked
}

// An Answer is the result of Acquire.
type Answer struct {
	Lock
	Busy     bool
	Position int // if Waiting, how many were ahead when it was enqueued, or -1 if not known
}

// first is how long an Acquire waits at least for the engine's first result, so that a free
// lock is held in the first answer.
const first = time.Second

// Acquire finds the lock or position of a request, or makes a position, and waits a while. most
// bounds the locks and positions of this identity.
func (s *Service) Acquire(ctx context.Context, r Request, id string, ttl time.Duration, w Want, most int) (Answer, error) {
	ref := registry.Ref{Session: r.Session, Request: id}
	params := w.params()
	s.mu.Lock()
	defer s.unlock()
	if err := s.refused(r); err != nil {
		return Answer{}, err
	}
	now := clock.Now()
	if err := s.registry.Open(r.Session, r.Identity, ttl, r.Arrival, now); err != nil {
		return Answer{}, err
	}
	if err := s.bind(r); err != nil {
		return Answer{}, err
	}
	fresh, err := s.registry.Acquire(ref, params, most, r.Arrival, now)
	if err != nil {
		return Answer{}, err
	}
	if fresh {
		ctx, cancel := context.WithCancel(s.life)
		s.parts[ref] = &part{ref: ref, want: w, cancel: cancel, ahead: -1}
		s.work.Add(1)
		s.waits.Add(1)
		go s.wait(ctx, ref, s.parts[ref]) // returns when the row or life ends
	}
	p := s.parts[ref]
	parkable := mostParked(s.registry.TTL(r.Session), w.longest())
	park := newParking(ctx, r, parkable)
	for {
		now := clock.Now()
		l, known := s.registry.One(ref, r.Arrival, now)
		switch {
		case !known && p != nil && p.refused:
			if isBusy(p.err) {
				return Answer{Busy: true}, nil
			}
			return Answer{}, p.err
		case !known:
			return Answer{}, fmt.Errorf("%w: the request was forgotten, send it again", ErrUnavailable)
		case l.State != registry.Waiting:
			if ctx.Err() == nil { // otherwise nobody hears it
				s.registry.Answered(r.Arrival, l)
			}
			return Answer{Lock: s.lock(l), Position: -1}, nil
		}
		least := r.Arrival
		if p != nil && p.err == nil && (!p.queued || p.ahead == 0) { // it may be held soon
			least = least.Add(first)
		}
		parked := s.park(ctx, park.until(now, least), r.Session)
		if err := s.refused(r); err != nil {
			return Answer{}, err
		}
		switch {
		case parked:
		case p != nil && p.err == nil && !p.queued && !w.Try && parkable < first && clock.Now().Before(r.Arrival.Add(first)):
			return Answer{Lock: Lock{Listed: l}, Position: -1}, nil // too soon to say that etcd does not answer
		default:
			return s.waiting(ref, p)
		}
	}
}

// mostParked is how long an Acquire may be parked. It is half of the validity that its answer would have
// if the lock were acquired at the end of that time. That validity is five sixths of the TTL, or of the
// time parked and max hold together. If max hold is so short that this would be no time at all, the risk is the client's.
func mostParked(ttl, maxHold time.Duration) time.Duration {
	most := registry.Validity(ttl) / 2
	if maxHold > 0 {
		most = min(most, max(maxHold*5/7, leastPark/4))
	}
	return most
}

// waiting is the answer of a call that is no longer parked.
func (s *Service) waiting(ref registry.Ref, p *part) (Answer, error) {
	switch {
	case p != nil && p.err != nil:
		return Answer{}, fmt.Errorf("%w: %w", s.unanswered(), p.err)
	case p != nil && !p.queued:
		return Answer{}, s.silent()
	}
	a := Answer{Lock: Lock{Listed: registry.Listed{Ref: ref, State: registry.Waiting}}, Position: -1}
	if p != nil {
		a.Position = p.ahead
	}
	return a, nil
}

// silent is the error while etcd does not answer, with what is known about why.
func (s *Service) silent() error {
	if host, err := hooks.HostOf(s.client); err == nil {
		if why := host.Cluster.Failing(); why != "" {
			return fmt.Errorf("%w: %s", s.unanswered(), why)
		}
	}
	return s.unanswered()
}

func (s *Service) unanswered() error {
	return fmt.Errorf("%w: etcd at %s does not answer, call again", ErrUnavailable, s.cfg.Etcd)
}

// Silent returns err. If etcd did not answer within ctx, it returns the error of silent instead,
// unless ctx ended because pawld stops.
func (s *Service) Silent(ctx context.Context, err error) error {
	switch {
	case err == nil || cluster.EndOf(ctx) == nil: // a deadline may have passed before its timer runs
		return err
	case errors.Is(context.Cause(ctx), ErrStopping):
		return ErrStopping
	}
	return s.silent()
}

// lock is l with its names, and what the engine knows about it. s.mu is held.
func (s *Service) lock(l registry.Listed) Lock {
	out := s.nameless(l)
	out.Names = namesOf(l.Text)
	return out
}

// nameless is lock without the names.
func (s *Service) nameless(l registry.Listed) Lock {
	out := Lock{Listed: l}
	if p := s.parts[l.Ref]; p != nil && p.held != nil {
		out.Token, out.Keys, out.Slot = int64(p.held.Token()), p.held.keys, p.held.slot
		out.Wanted = p.wanted
	}
	return out
}

// A parking is how long an answer may be parked.
type parking struct {
	wait clock.Instant // until when the client wants to wait
	most clock.Instant // until when it may be parked at most
}

// grace is how much of its caller's timeout an answer leaves.
const grace = 100 * time.Millisecond

// newParking is the parking of a request. most counts from the request's arrival, as its promises
// do.
func newParking(ctx context.Context, r Request, most time.Duration) parking {
	p := parking{r.Arrival.Add(r.Wait), r.Arrival.Add(most)}
	if end, ok := ctx.Deadline(); ok {
		now := clock.Now()
		if left := time.Until(end); now.Add(left - min(grace, left/4)).Before(p.most) {
			p.most = now.Add(left - min(grace, left/4))
		}
	}
	return p
}

// until is how long to park, counted from now, at least until least.
func (p parking) until(now, least clock.Instant) time.Duration {
	end := p.wait
	if end.Before(least) {
		end = least
	}
	if p.most.Before(end) {
		end = p.most
	}
	return end.Sub(now)
}

// park waits for news of a session, without the mutex. It returns false if d has passed, ctx has
// ended, or pawld stops.
func (s *Service) park(ctx context.Context, d time.Duration, session string) bool {
	if d <= 0 || s.stopping() || ctx.Err() != nil {
		return false
	}
	n := s.listen(session)
	s.unlock()
	defer func() {
		s.mu.Lock()
		s.unpark(session, n)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.changed:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-s.draining:
	}
	return false
}
