package watcher

import (
	"cmp"
	"errors"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
)

// stream has up to perStream watches and one link at a time for them. Its loop, run, and the reader of
// its link take turns calling the watches' functions, so that one goroutine at a time calls them even
// when links change.
type stream struct {
	hub   *Hub
	wake  chan struct{} // the table has something to send, or nothing left
	sweep *time.Timer   // wakes the loop for cancels that are not urgent

	// Guarded by Hub.mu.
	table  table
	sweeps bool            // sweep runs
	token  string          // of the link, or of the last link
	avoid  *cluster.Member // nil if there is none

	// Used by the loop and the link's reader, only inside of working.
	working gate.Gate
	link    *link // nil before the first one
	pulse   pulse
	empty   time.Time // since when it has had no watch; zero if it has one
	alarm   *time.Timer
}

func newStream(h *Hub) *stream {
	s := &stream{hub: h, wake: make(chan struct{}, 1), table: newTable(), working: gate.New(1)}
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

// run is the stream's loop. It returns when the stream has had no watches for a while, or when the Hub
// or the cluster has ended.
func (s *stream) run() {
	defer s.hub.running.Done()
	defer s.sweep.Stop()
	s.alarm = time.NewTimer(time.Hour)
	defer s.alarm.Stop()
	s.alarm.Stop()
	s.empty = time.Now()

	pace := retry{backoff: backoff.Request()}
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

// attend opens a link and serves it until it ends. It returns nil if another one has to be opened.
func (s *stream) attend() error {
	s.hub.mu.Lock()
	avoid := s.avoid
	s.hub.mu.Unlock()
	m := s.hub.cluster.Pick(avoid)
	s.dial(m)
	err := s.serve()
	if errors.Is(err, errIdle) {
		s.link.drain()
	}
	s.link.close()

	var le *linkError
	if !errors.As(err, &le) {
		return err
	}
	if s.hub.ctx.Err() != nil || s.hub.cluster.Err() != nil {
		return errEnded // the end of the Hub or the cluster ended the link, not a fault
	}
	s.lost(m, le)
	return nil
}

// lost grades members and tokens after a link's end, and requeues the table's watches.
func (s *stream) lost(m *cluster.Member, e *linkError) {
	h := s.hub
	var avoid *cluster.Member
	switch {
	case cluster.IsTokenRefusal(e):
		if !h.cluster.TokenRefused(m, e.token, e.err) {
			avoid = m // other members accept the token
		}
	case e.blame:
		h.cluster.Failed(m, e.err)
		avoid = m
	}
	h.mu.Lock()
	s.table.lost()
	s.avoid = avoid
	h.moves++
	watches := s.table.size
	h.mu.Unlock()
	h.cluster.Logger().Debug("watch stream lost", "endpoint", m.Endpoint(), "watches", watches, "error", e.err)
}

// lived is how long the last link gave answers.
func (s *stream) lived() time.Duration {
	if s.link.worked.IsZero() {
		return 0
	}
	return time.Since(s.link.worked)
}

// end ends all watches, with the cluster's error or that of a closed Hub.
func (s *stream) end() {
	h := s.hub
	err := cmp.Or(h.cluster.Err(), cluster.ErrClosed)
	h.mu.Lock()
	h.forget(s)
	s.table.endAll(Update{Err: err})
	calls := s.table.takeCalls()
	h.mu.Unlock()
	callAll(calls)
}

// callAll makes calls. The caller does not hold Hub.mu.
func callAll(calls []delivery) {
	for _, c := range calls {
		c.w.call(c.u)
	}
}
