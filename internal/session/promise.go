package session

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
)

// promise is until when somebody outside this process may believe that it holds something of
// the session. The zero promise has passed.
//
// Invariant: until never moves back.
type promise struct{ until clock.Instant }

func (p *promise) extend(until clock.Instant) {
	if p.until.Before(until) {
		p.until = until
	}
}

// keep extends the promise by the lock-delay d of what ended, unreleased, at now: it counts from
// then, or from the end of what was promised if that is later (rules LD2, LD3).
func (p *promise) keep(now clock.Instant, d time.Duration) {
	if p.until.Before(now) {
		p.until = now
	}
	p.until = p.until.Add(d)
}

// Promise keeps the lease from being revoked before until, whatever ends the session from now
// on (rule V4). An error is why the session has ended; then nothing was promised. The client's
// Close waits for a promise as long as for any removal, and then leaves the lease to expire.
func (s *Session) Promise(until clock.Instant) error {
	return s.whileValid(func() error {
		s.promise.extend(until)
		return nil
	})
}

// awaitPromise waits until all promises have passed. It returns false if ctx ends first. The
// session has ended, so no promise can be added.
func (s *Session) awaitPromise(ctx context.Context) bool {
	s.mu.Lock()
	until := s.promise.until
	s.mu.Unlock()
	return AwaitInstant(ctx, until)
}

// AwaitInstant waits until the instant until. It returns false if ctx ends first. It reads the
// clock again after each wait, because a timer stops during a suspend.
func AwaitInstant(ctx context.Context, until clock.Instant) bool {
	for left := until.Sub(clock.Now()); left > 0; left = until.Sub(clock.Now()) {
		if !backoff.Sleep(ctx, left) {
			return false
		}
	}
	return true
}

// Until is the first instant at which the session is no longer valid unless it is renewed; the
// zero Instant once it has ended.
func (s *Session) Until() clock.Instant {
	if s.Err() != nil {
		return clock.Instant{}
	}
	return s.validity.window().deadline()
}
