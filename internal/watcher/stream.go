package watcher

import (
	"errors"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// stream has up to perStream topics and keeps a link for them, one after the other. Its loop, run, calls the functions
// of who subscribes to them, in turns with the reader of its link while there is one; so those are called
// by one goroutine at a time whatever becomes of the links.
type stream struct {
	hub   *Hub
	wake  chan struct{} // the table has something to send, or nothing left
	sweep *time.Timer   // wakes the loop for what need not be cancelled at once

	// Under Hub.mu.
	table  table
	sweeps bool   // sweep runs
	token  string // the link's, or the last link's
	avoid  *cluster.Member

	// Of the loop or of the link's reader, whichever has filled busy.
	busy  chan struct{}
	link  *link // nil: there was none
	pulse pulse
	empty time.Time // since when there is no topic; zero: there is one
	alarm *time.Timer
	set   time.Time  // when alarm fires; zero: it does not
	calls []delivery // of one answer
	sends sends
}

func newStream(h *Hub) *stream {
	s := &stream{hub: h, wake: make(chan struct{}, 1), table: newTable(h.topics), busy: make(chan struct{}, 1)}
	s.sweep = time.AfterFunc(sweepAfter, s.nudge)
	s.sweep.Stop()
	return s
}

// nudge makes the loop check the table.
func (s *stream) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the stream's loop. It ends when the stream has no topics for a while, or with the Hub or
// the cluster.
func (s *stream) run() {
	defer s.hub.running.Done()
	defer s.sweep.Stop()
	s.alarm = time.NewTimer(time.Hour)
	defer s.alarm.Stop()
	s.alarm.Stop()
	s.empty = time.Now()

	pace := newRetry()
	for {
		err := s.attend()
		if err == nil {
			err = s.pause(pace.ended(s.lived()))
		}
		if errors.Is(err, errIdle) {
			return
		}
		if err != nil {
			s.end()
			return
		}
	}
}

// attend opens a link and keeps it until it ends. nil: open another one.
func (s *stream) attend() error {
	c := s.hub.cluster
	m := c.Pick(s.avoided()...)
	s.dial(m)
	err := s.serve()
	if errors.Is(err, errIdle) {
		s.link.drain()
	}
	s.link.close()
	s.lost()

	var le *linkError
	if !errors.As(err, &le) {
		return err
	}
	if s.hub.ctx.Err() != nil || s.hub.cluster.Err() != nil {
		return errOver // which ended the link: nobody's fault
	}
	s.blame(m, le)
	return nil
}

// blame draws the consequences of a link's end.
func (s *stream) blame(m *cluster.Member, e *linkError) {
	h := s.hub
	var avoid *cluster.Member
	switch {
	case cluster.IsTokenRefusal(e):
		if !h.cluster.TokenRefused(m, e.token, e.err) {
			avoid = m // the token is good elsewhere
		}
	case e.blame:
		h.cluster.Failed(m, e.err)
		avoid = m
	}
	h.mu.Lock()
	s.avoid = avoid
	h.moves++
	topics := s.table.size
	h.mu.Unlock()
	h.cluster.Logger().Debug("watch stream lost", "endpoint", m.Endpoint(), "topics", topics, "error", e.err)
}

func (s *stream) avoided() []*cluster.Member {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.avoid == nil {
		return nil
	}
	return []*cluster.Member{s.avoid}
}

// lived is for how long the last link gave answers.
func (s *stream) lived() time.Duration {
	if s.link == nil || s.link.worked.IsZero() {
		return 0
	}
	return time.Since(s.link.worked)
}

// lost empties the table: the link is gone.
func (s *stream) lost() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.table.lost()
	s.sweeps = false // the loop may have been woken for it when the link had ended already, and have done nothing
	s.table.sweep()
}

// end ends everybody, with the cluster's error or that of a closed Hub.
func (s *stream) end() {
	h := s.hub
	err := h.cluster.Err()
	if err == nil {
		err = cluster.ErrClosed
	}
	h.mu.Lock()
	h.forget(s)
	s.calls = s.left(s.table.endAll(Update{Err: err}, s.calls[:0]))
	h.mu.Unlock()
	s.call()
}

// left takes the watches that calls end out of the count. Caller holds Hub.mu.
func (s *stream) left(calls []delivery) []delivery {
	for _, c := range calls {
		if c.last {
			s.hub.leave(c.w)
		}
	}
	return calls
}

// call makes the calls. Nobody holds Hub.mu.
func (s *stream) call() {
	for _, c := range s.calls {
		if c.last {
			c.w.last(c.u)
		} else {
			c.w.call(c.u)
		}
	}
	if cap(s.calls) > kept {
		s.calls = nil
	}
	clear(s.calls)
}

// sweepLater has what nobody subscribes to cancelled in a moment. Caller holds Hub.mu.
func (s *stream) sweepLater() {
	if !s.sweeps {
		s.sweeps = true
		s.sweep.Reset(sweepAfter)
	}
}
