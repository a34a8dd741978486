package etcdfake

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// liveStream is a stream that a client has open at a member.
type liveStream struct {
	m           *Member
	ctx         context.Context
	cancel      context.CancelCauseFunc // the stream ends with that error
	wantsLeader bool
	watch       *watchStream // nil for KeepAlive
}

// open begins a stream, unless a rule or the member refuses it.
func (m *Member) open(ctx context.Context, method string) (*liveStream, error) {
	m.counts.add(&m.counts.opened, method)
	req := Request{Member: m, Method: method, Opening: true}
	_, err := m.exchange(ctx, req, func(ctx context.Context) (etcdapi.Message, error) {
		return nil, m.admit(ctx, nil)
	})
	if errors.Is(err, errSilence) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	s := &liveStream{m: m, wantsLeader: wantsLeader(ctx)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if method == "Watch" {
		s.watch = newWatchStream(m)
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.streams[s] = struct{}{}
	return s, nil
}

func (s *liveStream) close() {
	s.m.c.mu.Lock()
	delete(s.m.streams, s)
	s.m.c.mu.Unlock()
	s.cancel(nil)
}

// Streams is how many streams of a method, "Watch" or "LeaseKeepAlive", are open.
func (m *Member) Streams(method string) (n int) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for s := range m.streams {
		if (method == "Watch") == (s.watch != nil) {
			n++
		}
	}
	return n
}

// EndStreams ends the member's streams of a method, or all if method is "", with an error.
func (m *Member) EndStreams(method string, err error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for s := range m.streams {
		if method == "" || (method == "Watch") == (s.watch != nil) {
			s.cancel(err)
		}
	}
}

// pump and seenUpTo concern only watches. The caller holds c.mu.
func (s *liveStream) pump() {
	if s.watch != nil {
		s.watch.pump()
	}
}

func (s *liveStream) seenUpTo(rev int64) {
	if s.watch != nil {
		s.watch.seenUpTo(rev)
	}
}

// cause is why a stream ended, as the server reports it.
func cause(ctx context.Context, cancelled error) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		return cancelled
	}
	return err
}

var errWatchCanceled = rpctypes.ErrGRPCWatchCanceled
