package session

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// Err returns nil while the session is valid, and afterwards always the same reason. It matches
// ErrExpired, ErrRevoked, ErrClosed or the cluster's end. It compares the clock with the deadline at
// the call; it does no I/O and does not block.
func (s *Session) Err() error {
	if e := s.ended.Load(); e != nil {
		return *e
	}
	if err := s.host.Cluster.Err(); err != nil {
		return s.end(err, leave)
	}
	if s.validity.window().expired(clock.Now()) == nil {
		return nil
	}
	return s.expire()
}

// expire ends the session if the window in force has expired.
func (s *Session) expire() error {
	s.mu.Lock()
	err := s.validity.expired(clock.Now())
	s.mu.Unlock()
	if err == nil {
		return nil // extended meanwhile, before the window expired
	}
	return s.end(err, removeUnlessKept)
}

// Deadline is when the session expires unless it is renewed, or the zero Time once it has ended. It is
// computed at each call, for comparison with time.Now. A stored Deadline is wrong after a suspend.
func (s *Session) Deadline() time.Time { return s.Until().Time(clock.Now()) }

// Until is the first instant at which the session is no longer valid unless it is renewed, or the zero
// Instant once it has ended.
func (s *Session) Until() clock.Instant {
	if s.Err() != nil {
		return clock.Instant{}
	}
	return s.validity.window().deadline()
}

// Done is closed when the session has ended. It only notifies; Err decides.
func (s *Session) Done() <-chan struct{} { return s.done }

// Context is cancelled, with the error of Err as its cause, when the session has ended.
func (s *Session) Context() context.Context {
	if err := s.Err(); err != nil { // a deadline that has passed ends the session now
		s.cancel(err) // end does this too, perhaps a moment later
	}
	return s.ctx
}

// aftermath says what happens to the lease when a session ends.
type aftermath int

const (
	remove   aftermath = iota // revoke the lease
	handOver                  // nothing: another process takes it over
	leave                     // nothing, which Close reports; the lease may be another process's, or unreachable

	removeUnlessKept // leave if a lock-delay keeps something, because the lease lasts for as long (rule LD1); otherwise remove
)

// end ends the session with err unless it has ended, and returns the cause of the end. The session and its
// dependents are marked first, in one step, then the dependents' callers are notified, then the lease is
// removed (rule H1).
func (s *Session) end(err error, rest aftermath) error {
	s.mu.Lock()
	if e := s.ended.Load(); e != nil {
		s.mu.Unlock()
		return *e
	}
	left := s.mark(err, rest)
	s.mu.Unlock()
	s.announce(left)
	return err
}

// An ending is what is left to be done, without the mutex, after the session was marked as ended.
type ending struct {
	err        error
	rest       aftermath
	dependents []Dependent
	watch      *watcher.Watch // of the session key; nil if there is none
	deferred   bool           // something deferred the revocation
}

// mark marks the session, which has not ended, and all of its dependents as ended. s.mu is held.
func (s *Session) mark(err error, rest aftermath) ending {
	s.ended.Store(&err)
	s.revocation.ended, s.revocation.handedOver = clock.Now(), rest == handOver
	kept := s.validity.delay > 0 && s.book.keepsAny()
	if s.revocation.taking && rest != handOver || kept && rest == removeUnlessKept {
		rest = leave
	}
	left := ending{err, rest, s.roster.close(), s.keyWatch.watch, s.Deferred() != nil}
	s.keyWatch.watch = nil
	for _, d := range left.dependents {
		d.End(err)
	}
	return left
}

// announce does what follows from the end of the session.
func (s *Session) announce(left ending) {
	for _, d := range left.dependents {
		d.Ended()
	}
	s.cancel(left.err)
	close(s.done)
	if left.watch != nil {
		left.watch.Cancel()
	}
	s.notifyEnded(left.err)
	switch left.rest {
	case remove, removeUnlessKept:
		s.revoke(left.deferred)
	case handOver:
		s.revocation.decide(nil)
	case leave:
		s.revocation.decide(leftToExpire(s.id, left.err))
	}
}

// extend moves the deadline to that of a confirmed renewal which was sent at sent and answered
// with ttl. It does not extend a session that has ended (rule T4).
func (s *Session) extend(sent clock.Instant, ttl time.Duration) error {
	return s.whileValid(func() error {
		if !s.validity.extend(sent, ttl, clock.Now()) {
			return lease.ErrExpired // the next call of Err ends the session
		}
		s.endSooner() // a shorter TTL may have moved the deadline back
		return nil
	})
}

// whileValid is unlessEnded after a call of Err, which compares the clock. Every change that extends
// the session, adds a waiting dependent, an entry or a key to it, or begins a promise goes through it.
func (s *Session) whileValid(f func() error) error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.unlessEnded(f)
}

// unlessEnded calls f under mu. If the session has ended it returns the reason instead. The end is
// marked under mu too, so it either covers all that f adds, or f is refused. The watch of the session
// key and the arming of a dependent check for the end themselves, because an end is no error for them.
//
// It compares neither the clock nor whether the cluster has changed. That is enough for Adopt, whose caller
// has just compared both.
func (s *Session) unlessEnded(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ended.Load(); e != nil {
		return *e
	}
	return f()
}

// Gone ends the session because the server said that its lease, or its key, is gone.
func (s *Session) Gone(detail string) error {
	return s.end(fmt.Errorf("%w: %s", lease.ErrRevoked, detail), remove)
}

// displaced ends the session because its key was rewritten. The lease is left alone, because it
// may be another process's now.
func (s *Session) displaced(mod int64) error {
	return s.end(fmt.Errorf("%w: session key %q was rewritten at revision %d: taken over, or overwritten", lease.ErrRevoked, s.own.key, mod), leave)
}
