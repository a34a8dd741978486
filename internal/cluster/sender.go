package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

const (
	maxRefusals = 2           // token refusals after which a request gives up, if a new token may help
	slow        = time.Second // a try that a caller gives up after this long grades the member down
)

// A sender makes the tries of one request.
type sender struct {
	c    *Cluster
	r    Request
	call func(context.Context, *Member) (*pb.ResponseHeader, error)

	txn    *pb.TxnRequest
	answer *pb.TxnResponse

	until    time.Time // when the last try has to end
	began    time.Time // when the last try began
	login    *login    // of the last try
	tried    []*Member // the members tried since the last pause
	backoff  backoff.Backoff
	refusals int

	member  *Member // of the last try
	last    error   // the error of the last try, unless it failed because ctx ended
	outcome Outcome // of all tries together
}

func (s *sender) run(ctx context.Context) error {
	if s.r.Total == 0 {
		s.r.Total = defaultTotal
	}
	s.until, s.backoff = time.Now().Add(s.r.Total), backoff.Request()
	for EndOf(ctx) == nil {
		if err := s.prepare(ctx); err != nil {
			s.last = err
			break
		}
		outcome, err := s.try(ctx)
		if err == nil {
			s.c.Worked(s.member)
			if !s.r.anonymous {
				s.c.creds.Accepted(s.member, s.login)
			}
			return nil
		}
		if !s.mayRetry(ctx, outcome, err) {
			break
		}
		if s.r.Tracker != nil {
			s.r.Tracker.Paused(s.r.Ticket)
		}
		if !s.wait(ctx) {
			break
		}
	}
	return s.failed(ctx)
}

// prepare picks the member to try, and its credentials.
func (s *sender) prepare(ctx context.Context) (err error) {
	if err := s.c.Err(); err != nil {
		return err
	}
	if !s.r.anonymous {
		if err := s.c.reachUntil(ctx, s.until); err != nil {
			return err
		}
	}
	m, l := s.r.On, s.c.creds.bare
	if m == nil {
		avoid := s.tried
		if len(avoid) == 0 {
			avoid = []*Member{s.r.Avoid}
		}
		m = s.c.Pick(avoid...)
	}
	if !s.r.anonymous {
		if l, err = s.c.creds.For(ctx, m, s.until); err != nil {
			return err
		}
	}
	s.member, s.login = m, l
	return nil
}

// try sends the request to the member that prepare has picked. No other function sends a request. The
// Outcome is meaningful only with an error.
func (s *sender) try(ctx context.Context) (Outcome, error) {
	s.began = time.Now()
	end := s.began.Add(cmp.Or(s.r.PerTry, s.member.TryFor()))
	if end.After(s.until) {
		end = s.until
	}
	bound, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	t := &try{Context: bound, login: s.login, op: s.r.Op}
	t.cancel, t.began, t.term = cancel, s.began, s.c.raftTerm.Load()
	floor := s.c.revision.Load()
	if s.r.Tracker != nil {
		s.r.Tracker.Began(s.r.Ticket, s.member, s.began)
	}
	var h *pb.ResponseHeader
	var err error
	if s.txn != nil {
		s.answer, t.opts[0] = &t.answer, grpc.StaticMethod()
		err = s.member.Invoke(t, etcdapi.TxnMethod, s.txn, s.answer, t.opts[:]...)
		h = s.answer.Header
	} else {
		h, err = s.call(t, s.member)
	}
	failed, copies := t.close()
	if err != nil {
		if why := t.why.Load(); why != nil {
			err = *why
		}
		return failed, plainEnd(ctx, err)
	}
	if err := s.c.Check(s.member, h, floor, !s.r.Local); err != nil {
		return Unknown, err
	}
	if (copies != 1 || failed == Unknown) && s.txn != nil && s.r.Repeat != Always && !s.harmless() {
		return Unknown, errCopies
	}
	return NotApplied, nil
}

// errCopies is the error if the answer does not show whether the request was applied. It may answer a
// second copy, which found what the first copy wrote, or the first copy may still be applied later. If no
// copy was seen, or the only one was not answered, an interceptor answered by itself, or sent any number with
// another context.
var errCopies = errors.New("an interceptor did not send it exactly once, and each copy may have been applied, or may still be")

// plainEnd returns err, of a try for a caller with ctx. An interceptor may have returned the end of
// another context, which must not look like the end of the caller's. Of such an error plainEnd keeps
// only the code and the text.
func plainEnd(ctx context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !ended || EndOf(ctx) != nil {
		return err
	}
	return status.Error(codes.DeadlineExceeded, textOf(err))
}

// harmless reports whether the request writes nothing.
func (s *sender) harmless() bool {
	if s.txn == nil {
		return s.r.anonymous || s.r.Reads
	}
	return readOnly(s.txn.Success) && readOnly(s.txn.Failure)
}

// mayRetry records a failed try, and reports whether another may follow.
func (s *sender) mayRetry(ctx context.Context, outcome Outcome, err error) bool {
	if s.harmless() {
		outcome = NotApplied
	}
	s.outcome = max(s.outcome, outcome)
	s.r.Avoid = s.member // also after a pause
	if s.last == nil || EndOf(ctx) == nil {
		s.last = err
	}
	if s.c.shut.Load() {
		return false
	}
	if EndOf(ctx) != nil {
		// A caller that stops waiting proves nothing about the member, unless it waited for a long
		// time.
		if time.Since(s.began) >= slow {
			s.c.Failed(s.member, err)
		}
		return false
	}
	may := s.r.On == nil && (s.r.Repeat == Always || outcome == NotApplied)
	switch _, next := classify(err); next {
	case stop:
		return false
	case reauth:
		return s.refused(err) && may
	}
	s.blame(err)
	return may
}

// refused records that the member refused the token. It reports whether another try may follow, with a
// new token on any member or with the same token on another member.
func (s *sender) refused(err error) bool {
	if !s.c.creds.Refused(s.member, s.login.token, err) {
		s.tried = append(s.tried, s.member)
		return true
	}
	s.refusals++
	return s.refusals <= maxRefusals && (s.c.creds.user != "" || !isUserEmpty(err)) // without a user there is no token
}

// blame grades the member down.
func (s *sender) blame(err error) {
	s.tried = append(s.tried, s.member)
	switch {
	case isLearner(err):
		s.c.foundLearner(s.member)
	case errors.Is(err, errForeign), errors.Is(err, ErrChanged): // Check has handled it
	case errors.Is(err, errCopies): // the member has answered
	case errors.Is(err, errElected), errors.Is(err, errReplaced): // not the member's fault either
	default:
		s.c.Failed(s.member, err)
	}
}

// wait pauses once every member was tried, and reports whether to continue.
func (s *sender) wait(ctx context.Context) bool {
	if len(s.tried) < len(s.c.Members()) {
		return time.Now().Before(s.until)
	}
	s.tried = s.tried[:0]
	backoff.Wait(min(s.backoff.Next(), time.Until(s.until)), ctx.Done(), s.c.ended)
	return time.Now().Before(s.until)
}

// failed makes the error of a request that is given up.
func (s *sender) failed(ctx context.Context) error {
	e := &Error{Op: s.r.Op, Outcome: s.outcome, Err: s.last, ended: EndOf(ctx)}
	if s.member != nil {
		e.Endpoint = s.member.Endpoint()
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
