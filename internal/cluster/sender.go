package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	minBackoff  = 50 * time.Millisecond
	maxBackoff  = time.Second
	maxRefusals = 2           // of tokens, for one request
	slow        = time.Second // a member that is given up after this long is graded down
)

// attempt is the context of one attempt: it ends with its bound, and has the values of the call's. It
// is found again by Member.Invoke, which notes on it whether a stream was made: the proof that
// nothing was sent is never a text.
type attempt struct {
	context.Context // the call's
	bound           *bound
	end             time.Time       // of the bound, or the call's
	md              context.Context // with the metadata
	peer            peer.Peer       // filled by gRPC if and only if there was a stream
	opts            [2]grpc.CallOption
	sent            bool
}

type attemptKey struct{}

func (a *attempt) Deadline() (time.Time, bool) { return a.end, true }

func (a *attempt) Done() <-chan struct{} { return a.bound.ctx.Done() }

func (a *attempt) Err() error { return a.bound.ctx.Err() }

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	if v := a.bound.ctx.Value(key); v != nil { // first: package context asks whose Done it is
		return v
	}
	if v := a.md.Value(key); v != nil { // in place of the call's own
		return v
	}
	return a.Context.Value(key)
}

// note records a stream, if there was one.
func (a *attempt) note() {
	if a.peer.Addr != nil || a.peer.LocalAddr != nil || a.peer.AuthInfo != nil {
		a.sent = true
	}
}

// sender carries one request through its attempts.
type sender struct {
	c    *Cluster
	r    Request
	call func(context.Context, *Member) (*pb.ResponseHeader, error)

	txn      *pb.TxnRequest
	answer   *pb.TxnResponse
	harmless bool // writes nothing

	until    time.Time // no attempt goes on after it
	began    time.Time // the last attempt
	token    string    // of the last attempt
	tried    []*Member // since the last pause
	pause    time.Duration
	refusals int

	member  *Member // of the last attempt
	last    error   // of the last attempt that told something
	unknown bool    // some attempt may have been applied
}

func (s *sender) run(ctx context.Context) error {
	if s.r.Attempt == 0 {
		s.r.Attempt = defaultAttempt
	}
	if s.r.Total == 0 {
		s.r.Total = defaultTotal
	}
	s.until = time.Now().Add(s.r.Total)
	for {
		if EndOf(ctx) != nil {
			return s.failed(ctx)
		}
		if err := s.c.Err(); err != nil {
			s.last = err
			return s.failed(ctx)
		}
		g, err := s.credentials(ctx)
		if err != nil {
			s.last = err
			return s.failed(ctx)
		}
		s.member = s.pick()
		sent, err := s.try(ctx, g)
		if err == nil {
			s.c.Worked(s.member)
			return nil
		}
		if !s.goOn(ctx, sent, err) || !s.wait(ctx) {
			return s.failed(ctx)
		}
	}
}

func (s *sender) pick() *Member {
	switch {
	case s.r.On != nil:
		return s.r.On
	case s.r.first != nil && len(s.tried) == 0 && s.pause == 0:
		return s.r.first
	case len(s.tried) > 0:
		return s.c.Pick(s.tried...)
	case s.member != nil: // after a pause: not the last one again
		return s.c.Pick(s.member)
	case s.r.Avoid != nil:
		return s.c.Pick(s.r.Avoid)
	}
	return s.c.Pick()
}

// try makes one attempt. sent is false only if it is certain that nothing was sent.
func (s *sender) try(ctx context.Context, g *grant) (sent bool, err error) {
	s.token = g.token
	s.began = time.Now()
	end := s.began.Add(s.r.Attempt)
	if end.After(s.until) {
		end = s.until
	}
	b := s.c.bind(ctx, end.Sub(s.began))
	defer s.c.unbind(b)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d // the server is told
	}
	a := &attempt{Context: ctx, bound: b, end: end, md: g.ctx}
	m := s.member
	m.inflight.Add(1)
	defer m.done()
	floor := s.c.Revision()
	h, err := s.send(a, m)
	if err != nil {
		return a.sent, b.why(ctx, err)
	}
	return true, s.c.Check(m, h, floor, !s.r.Local)
}

// send is the one place where a request leaves.
func (s *sender) send(a *attempt, m *Member) (*pb.ResponseHeader, error) {
	if s.txn == nil {
		return s.call(a, m)
	}
	s.answer = new(pb.TxnResponse)
	a.opts = [2]grpc.CallOption{grpc.StaticMethod(), grpc.Peer(&a.peer)}
	err := m.conn.Invoke(a, pb.KV_Txn_FullMethodName, s.txn, s.answer, a.opts[:]...)
	a.note()
	return s.answer.Header, err
}

func (s *sender) credentials(ctx context.Context) (*grant, error) {
	if s.r.anonymous {
		return s.c.creds.bare, nil
	}
	if g := s.c.grant(); g != nil {
		return g, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.until)
	defer cancel()
	return s.c.fetch(ctx, s.r.On)
}

// goOn takes in a failed attempt, and reports whether there may be another.
func (s *sender) goOn(ctx context.Context, sent bool, err error) bool {
	outcome, next := judge(err, sent)
	if s.harmless {
		outcome = NotApplied
	}
	s.unknown = s.unknown || outcome == Unknown
	if s.last == nil || EndOf(ctx) == nil {
		s.last = err
	}
	if s.c.shut.Load() {
		return false
	}
	if EndOf(ctx) != nil {
		// A caller that stops waiting says nothing about the member, unless it has waited long.
		if time.Since(s.began) >= slow {
			s.c.Failed(s.member, err)
		}
		return false
	}
	switch next {
	case stop:
		return false
	case reauth:
		s.c.TokenRefused(s.token)
		s.refusals++
		return s.refusals <= maxRefusals && s.r.On == nil && !s.pointless(err)
	}
	s.blame(err)
	return s.r.On == nil && (s.r.Repeat == Always || outcome == NotApplied)
}

// pointless reports whether the server wants a token and there is none to be had.
func (s *sender) pointless(err error) bool {
	return s.c.creds.user == "" && is(err, rpctypes.ErrGRPCUserEmpty)
}

// blame grades the member down.
func (s *sender) blame(err error) {
	s.tried = append(s.tried, s.member)
	switch {
	case is(err, rpctypes.ErrGRPCNotSupportedForLearner):
		s.c.foundLearner(s.member)
	case errors.Is(err, errForeign), errors.Is(err, ErrChanged): // Check has dealt with it
	default:
		s.c.Failed(s.member, err)
	}
}

// wait pauses when every member was tried, and reports whether to go on.
func (s *sender) wait(ctx context.Context) bool {
	if len(s.tried) < len(s.c.Members()) {
		return time.Now().Before(s.until)
	}
	s.tried = s.tried[:0]
	s.pause = min(max(minBackoff, 2*s.pause), maxBackoff)
	t := time.NewTimer(min(s.pause/2+rand.N(s.pause/2), time.Until(s.until)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.c.ended:
	}
	return time.Now().Before(s.until)
}

// failed makes the error of a request that is given up.
func (s *sender) failed(ctx context.Context) error {
	e := &Error{Op: s.r.Op, Err: s.last, ended: EndOf(ctx)}
	if s.member != nil {
		e.Endpoint = s.member.Endpoint()
	}
	if s.unknown {
		e.Outcome = Unknown
	}
	if s.c.shut.Load() {
		e.Err = ErrClosed
	}
	if st := statusOf(e.Err); st != nil {
		e.Code = st.Code()
	} else if e.ended != nil {
		e.Code = status.FromContextError(e.ended).Code()
	}
	return e
}
