package watcher

import (
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// stream has up to perStream watches and keeps a link for them, one after the other. Its loop, run, owns its
// state and calls its watches' functions, in turns with the reader of its link while there is one; so those are called
// by one goroutine at a time whatever becomes of the links.
type stream struct {
	hub   *Hub
	wake  chan struct{} // added or dropped has something
	sweep *time.Timer   // wakes the loop for what need not be dropped at once

	// Under Hub.mu.
	load    int      // watches that are neither cancelled nor over
	riders  int      // of those, the ones that ride on another
	gone    bool     // it takes no more watches
	added   []*Watch // for the loop to take over
	dropped []*Watch // cancelled; for the loop to drop
	sweeps  bool     // sweep runs
	token   string   // the link's, or the last link's
	avoid   *cluster.Member

	// Of the loop or of the link's reader, whoever has filled busy. Every watch is in queue, in live, asked for, put
	// off, or rides on one that is.
	busy  chan struct{}
	have  int // how many those are
	queue line
	live  map[int64]*Watch          // by the ID on the present link
	held  map[int64][]*mvccpb.Event // of answers whose end has not come
	later []postponed
	link  *link   // nil: there was none
	asks  []asked // the creations that are not answered, as they were sent
	asked int     // their bytes
	pulse pulse
	empty time.Time // since when have is 0; zero: it is not
	alarm *time.Timer
	set   time.Time // when alarm fires; zero: it does not
	taken [2][]*Watch
}

// asked is a creation that is not answered. With watch nil it is an echo, or its watch was cancelled.
type asked struct {
	id    int64
	watch *Watch
	bytes int
}

// postponed is a watch that was refused.
type postponed struct {
	watch  *Watch
	until  time.Time
	denied bool
}

func newStream(h *Hub) *stream {
	s := &stream{hub: h, wake: make(chan struct{}, 1), live: map[int64]*Watch{}, busy: make(chan struct{}, 1)}
	s.sweep = time.AfterFunc(sweepAfter, s.nudge)
	s.sweep.Stop()
	return s
}

// nudge makes the loop look at added and dropped.
func (s *stream) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the stream's loop. It ends when the stream has no watches for a while, or with the Hub or
// the cluster.
func (s *stream) run() {
	defer s.hub.running.Done()
	defer s.sweep.Stop()
	s.alarm = time.NewTimer(time.Hour)
	defer s.alarm.Stop()
	s.alarm.Stop()
	s.empty = time.Now()
	s.take()

	var pace retry
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
	s.requeue()
	s.take() // the loop may have been woken for it when the link was over already, and have done nothing

	var le *linkError
	if !errors.As(err, &le) {
		return err
	}
	if s.hub.ctx.Err() != nil || s.hub.cluster.Err() != nil {
		return errOver // which ended the link: nobody's fault
	}
	s.judge(m, le)
	return nil
}

// judge draws the consequences of a link's end.
func (s *stream) judge(m *cluster.Member, e *linkError) {
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
	h.mu.Unlock()
	h.cluster.Logger().Debug("watch stream lost", "endpoint", m.Endpoint(), "watches", s.have, "error", e.err)
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
