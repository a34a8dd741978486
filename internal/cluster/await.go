package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// await is something that was sent on a line, or waits to be, and has no answer yet: a call, the opening of a
// stream, or a message on one.
type await struct {
	number int // of what was sent on the line, in its order
	began  time.Time
	term   uint64                // the raft term known when it was sent; 0 if its answer needs no leader
	cancel context.CancelFunc    // ends it; nil if only its caller may
	why    atomic.Pointer[error] // why cancel was called before an answer, or nil
}

// awaits are all of a line.
type awaits struct {
	mu       sync.Mutex
	all      map[*await]struct{}
	sent     int  // the number of the last that was sent
	answered int  // and of the last that was answered, so an answer is due to what was sent after it
	heard    int  // how many answers came, and how many connections were made
	watched  bool // whether a goroutine watches the line
}

// begin records that a is sent, and has the line watched.
func (l *line) begin(a *await) {
	s := &l.awaits
	s.mu.Lock()
	if s.all == nil {
		s.all = make(map[*await]struct{})
	}
	s.all[a] = struct{}{}
	s.sent++
	a.number = s.sent
	watched := s.watched
	s.watched = true
	s.mu.Unlock()
	if !watched {
		l.watch()
	}
}

// done records that a awaits no answer any more, and whether that is because it was answered. It does
// nothing if that is known.
func (l *line) done(a *await, answered bool) {
	s := &l.awaits
	s.mu.Lock()
	_, there := s.all[a]
	delete(s.all, a)
	if answered = answered && there; answered {
		s.answered = max(s.answered, a.number)
		s.heard++
	}
	s.mu.Unlock()
	if answered {
		l.answered()
	}
}

// restart is called when a connection was made. What is sent on it has not been silent yet.
func (s *awaits) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard++
}

// state returns how many answers and connections there were, whether one is due, and whether anything awaits
// one.
func (s *awaits) state() (heard int, due, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard, s.sent > s.answered, len(s.all) > 0
}

// unwatch ends the watching of the line, and reports whether it did. It does not if there is something to
// watch: an answer is due, or what awaits one may be given up. given says that nothing awaits the answer that
// is due.
func (s *awaits) unwatch(given bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if given && len(s.all) == 0 {
		s.answered = s.sent
	}
	for a := range s.all {
		if a.cancel != nil {
			return false
		}
	}
	s.watched = s.sent > s.answered
	return !s.watched
}

// any reports whether such is true of something that awaits an answer.
func (s *awaits) any(such func(*await) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.all {
		if such(a) {
			return true
		}
	}
	return false
}

// giveUp ends, with the error why, what awaits an answer and may be given up, and for which such is true. It
// ends each once.
func (s *awaits) giveUp(why *error, such func(*await) bool) {
	s.any(func(a *await) bool {
		if a.cancel != nil && such(a) && a.why.CompareAndSwap(nil, why) {
			go a.cancel() // it calls methods of the caller's context, which may stand still
		}
		return false
	})
}

func everyAwait(*await) bool { return true }

// asking is a stream whose messages have answers.
type asking struct {
	grpc.ClientStream
	l       *line
	message await // what was sent since the last answer
}

func (s *asking) SendMsg(m any) error {
	s.l.begin(&s.message)
	err := s.ClientStream.SendMsg(m)
	if s.Context().Err() != nil { // its end may have been recorded before
		s.settle()
	}
	return err
}

func (s *asking) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.WatchResponse); err == nil && ok && len(r.Events) > 0 {
		s.l.events.Add(1)
		return nil // events are unsolicited
	}
	s.l.done(&s.message, err == nil)
	return err
}

// settle records that no answer is awaited.
func (s *asking) settle() { s.l.done(&s.message, false) }
