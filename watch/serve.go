package watch

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

func (s *stream) open(m *cluster.Member) {
	s.link = dial(s.hub.ctx, s.hub.cluster, m)
	s.pulse = pulse{since: time.Now()}
}

// serve is the loop while there is a link. It returns errIdle, errOver or a *linkError.
func (s *stream) serve() error {
	for {
		s.create()
		if err := s.look(time.Now()); err != nil {
			return err
		}
		select {
		case n := <-s.link.news:
			if err := s.hear(n); err != nil {
				return err
			}
		case <-s.link.done:
			if err := s.rest(); err != nil {
				return err
			}
		case <-s.wake:
			s.take()
		case <-s.alarm.C:
			s.set = time.Time{}
		case <-s.hub.ctx.Done():
			return errOver
		case <-s.hub.cluster.Ended():
			return errOver
		}
	}
}

// rest takes what the reader, which is gone, has left. Without a word of its own it was cancelled by the link's guard.
func (s *stream) rest() error {
	select {
	case n := <-s.link.news:
		return s.hear(n)
	default:
		return &linkError{errSilent, s.link.token, true}
	}
}

// pause is the loop while there is no link, for d. It returns nil when d is over, errIdle or errOver.
func (s *stream) pause(d time.Duration) error {
	until := time.Now().Add(d)
	for {
		now := time.Now()
		s.retryLater(now)
		if s.have == 0 && s.hub.retire(s) {
			return errIdle
		}
		if !now.Before(until) {
			return nil
		}
		s.arm(now, until)
		select {
		case <-s.wake:
			s.take()
		case <-s.alarm.C:
			s.set = time.Time{}
		case <-s.hub.ctx.Done():
			return errOver
		case <-s.hub.cluster.Ended():
			return errOver
		}
	}
}

// look does what is due at now, and sets the alarm for what is due next.
func (s *stream) look(now time.Time) error {
	next := s.retryLater(now)
	if s.have > 0 {
		s.empty = time.Time{}
	} else if s.empty.IsZero() {
		s.empty = now
	}
	if !s.empty.IsZero() {
		end := s.empty.Add(idleFor)
		if !now.Before(end) && s.hub.retire(s) {
			return errIdle
		}
		next = sooner(next, end)
	}
	if len(s.spent) > 0 {
		due := s.spentSince.Add(spentFor)
		if now.Before(due) {
			next = sooner(next, due)
		} else {
			s.cancelSpent()
		}
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
		s.ask = asked{id: s.link.echo()}
		s.pulse.asked, s.pulse.echoed = now, true
		_, at = s.pulse.due(now)
	}
	s.arm(now, sooner(next, at))
	return nil
}

// arm sets the alarm to fire at t or sooner. (Sooner costs a look; setting it for every answer would cost more.)
func (s *stream) arm(now, t time.Time) {
	if t.IsZero() || !s.set.IsZero() && !t.Before(s.set) && now.Before(s.set) {
		return
	}
	s.set = t
	s.alarm.Reset(t.Sub(now))
}
