package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	fetchTotal = 9 * time.Second // bounds getting a token, with all tries
	// maxLoginHedge is never so long that a session with a short TTL could not wait for it.
	maxLoginHedge = time.Second
)

// loginRound gets one token. One goroutine at a time owns it.
type loginRound struct {
	s     *credentials
	first *Member       // queried first, unless it is in shun
	shun  []*Member     // queried last: tokens that they issue are likely to be refused
	after time.Duration // until another member is queried too

	backoff  backoff.Backoff
	failures int
	last     error // of the last failure
}

// run returns the first login that a member issues, and how long that took.
func (r *loginRound) run() (*login, time.Duration, error) {
	ctx, cancel := context.WithTimeout(r.s.c.life, fetchTotal)
	defer cancel()
	r.backoff, r.last = backoff.Request(), errNoToken
	h := Hedge[*login]{Cluster: r.s.c, After: r.after, Pick: r.pick, Query: r.s.authenticate, Failed: r.failed}
	switch got, err := h.Run(ctx); {
	case err == nil:
		return got.Result, got.Took, nil
	case r.s.c.life.Err() != nil:
		return nil, 0, ErrClosed
	default:
		return nil, 0, r.last
	}
}

// pick chooses the first member, then others, and those to be shunned last. Of these it rather
// chooses the token's issuer than the member that refused the token.
func (r *loginRound) pick(queried []*Member) *Member {
	if len(queried) == 0 && r.first != nil && !slices.Contains(r.shun, r.first) {
		return r.first
	}
	for n := len(r.shun); n > 0; n-- {
		avoid := append(slices.Clone(queried), r.shun[:n]...)
		if m := r.s.c.Pick(avoid...); !slices.Contains(avoid, m) {
			return m
		}
	}
	return r.s.c.Pick(queried...)
}

// failed pauses after as many failures as there are members.
func (r *loginRound) failed(err error) (wait time.Duration, final bool) {
	r.failures, r.last = r.failures+1, err
	if _, n := classify(err); n == stop {
		return 0, true
	}
	if r.failures%len(r.s.c.Members()) != 0 {
		return 0, false
	}
	return r.backoff.Next(), false
}

// authenticate queries m for a login, once.
func (s *credentials) authenticate(ctx context.Context, m *Member) (*login, error) {
	var token string
	req := Request{Op: fmt.Sprintf("authenticate user %q", s.user), On: m, Local: true, anonymous: true}
	err := s.c.Do(ctx, req, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewAuthClient(m).Authenticate(ctx, &pb.AuthenticateRequest{Name: s.user, Password: s.password})
		token = resp.GetToken()
		return resp.GetHeader(), err
	})
	switch {
	case isAuthNotEnabled(err):
		return newLogin("", nil), nil
	case err != nil:
		return nil, err
	}
	l := newLogin(token, m)
	if life := tokenLife(token, time.Now()); life > 0 {
		l.renewAt = s.c.now() + life - life/4
	}
	return l, nil
}
