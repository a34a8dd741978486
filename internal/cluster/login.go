package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	fetchTotal = 9 * time.Second // bounds getting a token, with all tries
	maxLogins  = 3               // tries of one round under way at once
)

// hedgeAfter is how long a login may take before another member is queried too, as a renewal is (N3). It is
// never so long that a session with a short TTL could not wait for it.
func hedgeAfter(usual time.Duration) time.Duration {
	return min(max(300*time.Millisecond, 3*usual), time.Second)
}

// loginRound gets one token. Its one goroutine owns it.
type loginRound struct {
	s          *credentials
	first      *Member   // queried first, if not shunned
	shun       []*Member // queried last: tokens that they issue are likely to be refused
	hedgeAfter time.Duration

	ctx     context.Context
	results chan loginResult
	tries   []loginTry // under way
	queried []*Member  // since the last pause
	backoff backoff.Backoff
}

type loginTry struct {
	member *Member
	began  time.Time
}

type loginResult struct {
	loginTry
	token string
	err   error
}

// run returns the first login that a member issues, and how long that took. Another member
// joins one that fails, or has not answered within hedgeAfter. An answer that every member
// would give ends the round.
func (r *loginRound) run() (*login, time.Duration, error) {
	ctx, cancel := context.WithCancel(r.s.c.life)
	defer cancel() // ends what is still under way
	r.ctx, r.results, r.backoff = ctx, make(chan loginResult, maxLogins), backoff.Request()
	late := time.NewTimer(fetchTotal)
	defer late.Stop()
	last := errNoToken
	next := time.NewTimer(r.begin())
	defer next.Stop()
	for {
		select {
		case got := <-r.results:
			r.drop(got.member)
			l, err := r.login(got)
			if err == nil {
				r.overtaken()
				return l, time.Since(got.began), nil
			}
			last = err
			if _, n := classify(err); n == stop {
				return nil, 0, err
			}
			next.Reset(r.after())
		case <-next.C:
			next.Reset(r.begin())
		case <-late.C:
			return nil, 0, last
		case <-ctx.Done():
			return nil, 0, ErrClosed
		}
	}
}

// login makes a login from an answer.
func (r *loginRound) login(got loginResult) (*login, error) {
	if is(got.err, rpctypes.ErrGRPCAuthNotEnabled) {
		return newLogin("", nil), nil
	}
	if got.err != nil {
		return nil, got.err
	}
	l := newLogin(got.token, got.member)
	if life := tokenLife(got.token, time.Now()); life > 0 {
		l.renewAt = r.s.c.now() + life - life/4
	}
	return l, nil
}

// begin queries another member, if one is left and few queries are under way, and returns when to check again.
func (r *loginRound) begin() time.Duration {
	if len(r.tries) >= maxLogins {
		return fetchTotal // every try is bounded, so its answer comes earlier
	}
	m := r.member()
	if m == nil {
		return r.hedgeAfter
	}
	t := loginTry{m, time.Now()}
	r.tries, r.queried = append(r.tries, t), append(r.queried, m)
	if !r.s.c.spawn(func() { r.results <- r.authenticate(t) }) { // ends with ctx, or by its bound
		r.drop(m)
	}
	return r.hedgeAfter
}

// member chooses the member to query: the first, then one not yet queried, shunned ones last; nil: all are
// being queried, or were since the last pause.
func (r *loginRound) member() *Member {
	if len(r.queried) == 0 && r.first != nil && !slices.Contains(r.shun, r.first) {
		return r.first
	}
	avoid := append(slices.Clone(r.queried), r.shun...)
	if m := r.s.c.Pick(avoid...); !slices.Contains(avoid, m) {
		return m
	}
	if len(r.shun) > 0 && !slices.Contains(r.queried, r.shun[0]) { // rather the token's issuer than the members that refused it
		if m := r.s.c.Pick(append(slices.Clone(r.queried), r.shun[0])...); m != r.shun[0] && !slices.Contains(r.queried, m) {
			return m
		}
	}
	if m := r.s.c.Pick(r.queried...); !slices.Contains(r.queried, m) {
		return m
	}
	return nil
}

// after is how long to wait after a failure: zero while a member has not been queried.
func (r *loginRound) after() time.Duration {
	if len(r.queried) < len(r.s.c.Members()) {
		return 0
	}
	r.queried = r.queried[:0]
	for _, t := range r.tries {
		r.queried = append(r.queried, t.member)
	}
	return r.backoff.Next()
}

func (r *loginRound) drop(m *Member) {
	r.tries = slices.DeleteFunc(r.tries, func(t loginTry) bool { return t.member == m })
}

// errSlowLogin is why a member is graded down after another one answered first.
var errSlowLogin = errors.New("no answer to a login until another member had given one")

// overtaken grades down the members that had been joined by another and did not answer first.
func (r *loginRound) overtaken() {
	for _, t := range r.tries {
		if time.Since(t.began) >= r.hedgeAfter {
			r.s.c.Failed(t.member, errSlowLogin)
		}
	}
}

// authenticate queries t's member, once.
func (r *loginRound) authenticate(t loginTry) loginResult {
	s, got := r.s, loginResult{loginTry: t}
	req := Request{Op: fmt.Sprintf("authenticate user %q", s.user), On: t.member, Local: true, anonymous: true}
	got.err = s.c.Do(r.ctx, req, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewAuthClient(m).Authenticate(ctx, &pb.AuthenticateRequest{Name: s.user, Password: s.password})
		if err != nil {
			return nil, err
		}
		got.token = resp.Token
		return resp.Header, nil
	})
	return got
}
