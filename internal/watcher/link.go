package watcher

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// link is one gRPC stream on one member. It has one goroutine, its reader, which takes turns with the
// loop of its stream, so that it processes an answer itself.
type link struct {
	member *cluster.Member
	cancel context.CancelFunc
	done   chan struct{} // closed when the reader has returned
	guard  *time.Timer   // cancels the link when it fires, which bounds Send

	// Used only inside of stream.working.
	grpc   pb.Watch_WatchClient // nil until open
	token  string
	worked time.Time // when its first good answer came, or zero
	end    error     // why no further answer is used; nil until the link ends
}

// linkError is why a link ended.
type linkError struct {
	err   error
	token string // with which it was opened
	blame bool   // the member is graded down because of it
}

func (e *linkError) Error() string { return e.err.Error() }
func (e *linkError) Unwrap() error { return e.err }

// dial gives s a link to m, and the link its reader.
func (s *stream) dial(m *cluster.Member) {
	ctx, cancel := context.WithCancel(s.hub.ctx)
	l := &link{member: m, cancel: cancel, done: make(chan struct{})}
	l.guard = time.AfterFunc(answerWithin, cancel)
	l.guard.Stop()
	s.link = l
	s.pulse = pulse{}
	go s.read(ctx, l) // ends with ctx or the stream; close waits for it
}

// read opens the stream and processes what arrives, until it ends.
func (s *stream) read(ctx context.Context, l *link) {
	defer close(l.done)
	err := s.converse(ctx, l)
	_ = s.do(func(time.Time) error { return err })
}

func (s *stream) converse(ctx context.Context, l *link) *linkError {
	out, token, err := s.hub.cluster.Outgoing(ctx, l.member)
	if err != nil {
		return &linkError{err: err}
	}
	_ = s.do(func(now time.Time) error { s.pulse = pulse{since: now}; return nil })
	grpc, err := etcdapi.Watch(out, l.member)
	if err != nil {
		return &linkError{err, token, true}
	}
	_ = s.do(func(now time.Time) error {
		l.grpc, l.token = grpc, token
		s.pulse = pulse{open: true, since: now}
		s.hub.opened(s, token)
		return nil
	})
	for {
		r, err := grpc.Recv()
		if err != nil && ctx.Err() != nil {
			err = errSilent // the guard has ended it, unless it had ended already
		}
		if err != nil {
			return &linkError{err, token, true}
		}
		if s.do(func(now time.Time) error { return s.answer(r, now) }) != nil {
			s.nudge() // answers that arrive before the loop has ended the link are dropped
		}
	}
}

// send sends r. In practice it does not block, because what the server has still to read is less than
// gRPC buffers: at most maxUnanswered bytes of creations, or one creation, and a cancel for each watch.
// If it blocks, guard ends the link. The reader gets the error too, so send does not check it.
func (l *link) send(r *pb.WatchRequest) {
	l.guard.Reset(answerWithin)
	_ = l.grpc.Send(r)
	l.guard.Stop()
}

// drain half-closes the stream and gives the server a moment to end it, so that the server counts no
// failure. (etcd 3.7 does not end it then, and records a cancellation.)
func (l *link) drain() {
	if l.grpc != nil && l.grpc.CloseSend() == nil {
		backoff.Wait(drainFor, l.done, nil)
	}
}

// close ends the link and returns when its reader has returned.
func (l *link) close() {
	l.guard.Stop()
	l.cancel()
	<-l.done
}

var (
	errSilent  = errors.New("no answer in time")
	errRetired = errors.New("the member is no longer in the list")
	errIdle    = errors.New("no watches left")
	errEnded   = errors.New("the hub or the cluster ended")
)
