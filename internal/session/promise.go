package session

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// promise is until when somebody outside this process may go on believing that what
// the session holds is held. The zero promise has passed.
//
// Invariant: it never moves back.
type promise struct{ until clock.Instant }

func (p *promise) extend(until clock.Instant) {
	if p.until.Before(until) {
		p.until = until
	}
}

// Promise keeps the lease from being revoked before until, whatever ends the session
// from now on (rule V4). The error says why the session has ended: then nothing was
// promised. The client's Close waits for a promise as long as for any removal, and
// leaves the lease to expire then.
func (s *Session) Promise(until clock.Instant) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ended.Load(); e != nil {
		return e.err
	}
	s.promise.extend(until)
	return nil
}

// awaitPromise waits until what was promised has passed; false: ctx has ended before.
// The session has ended, so that nothing more is promised.
func (s *Session) awaitPromise(ctx context.Context) bool {
	s.mu.Lock()
	until := s.promise.until
	s.mu.Unlock()
	return AwaitInstant(ctx, until)
}

// AwaitInstant waits until the instant has come; false: ctx has ended before. It looks
// at the clock again after each wait, because a timer stands still during a suspend.
func AwaitInstant(ctx context.Context, until clock.Instant) bool {
	for {
		left := until.Sub(clock.Now())
		if left <= 0 {
			return true
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

// Until is the first instant at which the session has ended unless it is renewed; the
// zero Instant once it has ended.
func (s *Session) Until() clock.Instant {
	if s.Err() != nil {
		return clock.Instant{}
	}
	return s.validity.window().deadline()
}
