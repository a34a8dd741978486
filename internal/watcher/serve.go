package watcher

import (
	"context"
	"time"
)

// do runs work, and then does all that became due, unless the link has ended. The loop and the
// reader of its link call it, and one of them at a time is inside. The first error ends the link,
// and every later call returns it.
func (s *stream) do(work func(now time.Time) error) error {
	s.working.Enter(context.Background()) // it waits for nothing but the other's work
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

// serve is the loop while there is a link, whose reader processes the server's answers. It
// returns errIdle, errEnded or a *linkError.
func (s *stream) serve() error {
	nothing := func(time.Time) error { return nil }
	for work := nothing; ; {
		if err := s.do(work); err != nil {
			return err
		}
		select {
		case <-s.wake:
			work = func(time.Time) error { s.clear(); return nil }
		case <-s.alarm.C:
			work = func(time.Time) error { s.set = time.Time{}; return nil }
		case <-s.link.done: // it ended with an error
			work = nothing
		case <-s.hub.ctx.Done():
			work = func(time.Time) error { return errEnded }
		case <-s.hub.cluster.Ended():
			work = func(time.Time) error { return errEnded }
		}
	}
}

// pause is the loop while there is no link, for d. It returns nil when d has passed, errIdle or errEnded.
func (s *stream) pause(d time.Duration) error {
	until := time.Now().Add(d)
	for {
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
		s.arm(now, until)
		select {
		case <-s.wake:
			s.clear()
		case <-s.alarm.C:
			s.set = time.Time{}
		case <-s.hub.ctx.Done():
			return errEnded
		case <-s.hub.cluster.Ended():
			return errEnded
		}
	}
}

// clear cancels the creations that nobody wants any more.
func (s *stream) clear() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.sweeps = false
	s.table.sweep()
}

// retryLater moves the watches whose delay has passed to another stream, and returns when the
// next delay passes. Caller holds Hub.mu.
func (s *stream) retryLater(now time.Time) (next time.Time) {
	due, next := s.table.take(now)
	for _, p := range due {
		s.hub.elsewhere(p, s, now)
	}
	return next
}

// rest returns when the table has to be checked again, or idle if the stream has had no watch for
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
	what, at := s.pulse.due(now)
	switch what {
	case abandon:
		return &linkError{errSilent, s.link.token, true}
	case progress:
		s.link.progress()
		s.pulse.probed = now
		_, at = s.pulse.due(now)
	case echo:
		s.hub.mu.Lock()
		id := s.table.echo()
		s.hub.mu.Unlock()
		s.link.echo(id)
		s.pulse.sent(time.Now())
		s.pulse.echoed = true
		_, at = s.pulse.due(now)
	}
	s.arm(now, sooner(next, at))
	return nil
}

// arm sets the alarm to fire at t or earlier. (Earlier costs a check; setting it for every
// answer would cost more.)
func (s *stream) arm(now, t time.Time) {
	if t.IsZero() || !s.set.IsZero() && !t.Before(s.set) && now.Before(s.set) {
		return
	}
	s.set = t
	s.alarm.Reset(t.Sub(now))
}
