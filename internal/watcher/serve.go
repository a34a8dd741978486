package watcher

import (
	"context"
	"time"
)

// do runs work, and then does all that became due, unless the link has ended. The loop and the reader
// of its link call it, and only one of them at a time is inside. The first error ends the link, and
// every later call returns that error.
func (s *stream) do(work func(now time.Time) error) error {
	s.working.Enter(context.Background()) // waits only for the work of the other
	defer s.working.Leave()
	l, now := s.link, time.Now()
	if l.end == nil {
		l.end = work(now)
	}
	if l.end == nil {
		s.send()
		l.end = s.doDue(now)
	}
	return l.end
}

// send sends what the table has to send.
func (s *stream) send() {
	if s.link.grpc == nil {
		return
	}
	s.hub.mu.Lock()
	out, unanswered := s.table.send(), len(s.table.requests)
	s.hub.mu.Unlock()
	for _, r := range out {
		s.link.send(r)
	}
	if unanswered > 0 {
		s.pulse.sent(time.Now()) // sending may have taken a while
	}
}

// serve is the loop while there is a link. The link's reader processes the server's answers. serve
// returns errIdle, errEnded or a *linkError.
func (s *stream) serve() (err error) {
	for err == nil {
		if err = s.do(func(time.Time) error { return nil }); err == nil {
			err = s.wait(s.link.done)
		}
	}
	return err
}

// wait waits until there may be something to do, at the latest until done is closed. It returns
// errEnded or nil.
func (s *stream) wait(done <-chan struct{}) error {
	select {
	case <-s.wake:
		s.clear()
	case <-s.alarm.C:
	case <-done:
	case <-s.hub.ctx.Done():
		return errEnded
	case <-s.hub.cluster.Ended():
		return errEnded
	}
	return nil
}

// pause is the loop while there is no link, for d. It returns nil when d has passed, errIdle or errEnded.
func (s *stream) pause(d time.Duration) error {
	for until := time.Now().Add(d); ; {
		now := time.Now()
		s.hub.mu.Lock()
		s.retryLater(now)
		idle := s.hub.retire(s)
		s.hub.mu.Unlock()
		if idle {
			return errIdle
		}
		if !now.Before(until) {
			return nil
		}
		s.alarm.Reset(until.Sub(now))
		if err := s.wait(nil); err != nil {
			return err
		}
	}
}

// clear cancels the creations of watches that are no longer wanted.
func (s *stream) clear() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.sweeps = false
	s.table.sweep()
}

// retryLater moves the watches whose delay has passed to another stream, and returns when the next
// delay passes. The caller holds Hub.mu.
func (s *stream) retryLater(now time.Time) (next time.Time) {
	due, next := s.table.take(now)
	for _, p := range due {
		s.hub.elsewhere(p, s, now)
	}
	return next
}

// rest returns when the table has to be checked again. idle means that the stream has had no watch for
// a while and no longer accepts one.
func (s *stream) rest(now time.Time) (next time.Time, idle bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	next = s.retryLater(now)
	if s.table.size > 0 {
		s.empty = time.Time{}
		return next, false
	}
	if s.empty.IsZero() {
		s.empty = now
	}
	end := s.empty.Add(idleFor)
	if !now.Before(end) {
		return next, s.hub.retire(s)
	}
	return sooner(next, end), false
}

// doDue does what is due at now, and sets the alarm for what is due next.
func (s *stream) doDue(now time.Time) error {
	next, idle := s.rest(now)
	if idle {
		return errIdle
	}
	what, at := s.pulse.due(now, s.link.member.TryFor())
	switch {
	case s.link.member.Retired():
		return &linkError{errRetired, s.link.token, false}
	case what == abandon:
		return &linkError{errSilent, s.link.token, true}
	case what == probe:
		s.hub.mu.Lock()
		echo := s.table.echo()
		s.hub.mu.Unlock()
		s.link.send(echo)
		s.pulse.sent(time.Now())
		_, at = s.pulse.due(now, s.link.member.TryFor())
	}
	if next = sooner(next, at); !next.IsZero() {
		s.alarm.Reset(next.Sub(now))
	}
	return nil
}
