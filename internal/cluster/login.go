package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

const (
	fetchTotal = 9 * time.Second // bounds getting a token, with all tries
	// maxLoginHedge is never so long that a session with a short TTL could not wait for it.
	maxLoginHedge = time.Second
)

// fetch is one login under way, shared by all callers that need it. Until done is closed, only its
// goroutine uses the fields below err. s.mu guards login and err.
type fetch struct {
	done  chan struct{} // closed when login or err is final
	login *login
	err   error // of the last failure so far; it wraps errNoToken, unless the server answered

	s        *credentials
	first    *Member       // queried first, unless it is in shun
	shun     []*Member     // queried last, because tokens that they issue are likely to be refused
	after    time.Duration // after which another member is queried too
	backoff  backoff.Backoff
	failures int
}

// join returns the fetch under way, or begins one.
func (s *credentials) join(first *Member) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetching != nil {
		return s.fetching, nil
	}
	f := &fetch{done: make(chan struct{}), s: s, first: first, shun: s.shun, after: s.usual.HedgeAfter(maxLoginHedge), backoff: backoff.Request()}
	if l := s.current.Load(); l != nil && !l.stale() { // another fetch has just ended
		f.login = l
		close(f.done)
		return f, nil
	}
	now := time.Now()
	f.err = errNoToken
	if s.failure != nil && now.Sub(s.failedAt) < failurePause {
		if !errors.Is(s.failure, errNoToken) {
			return nil, s.failure
		}
		f.err = s.failure
	}
	wait := s.pace(now)
	if !s.c.Go(func() { f.run(wait) }) { // ends within fetchTotal and wait, or with the Cluster
		return nil, cmp.Or(s.c.Err(), ErrClosed) // a Cluster that is being closed has no error yet
	}
	s.fetching, s.shun = f, nil
	return f, nil
}

// pace returns how long a fetch requested now waits before it begins.
func (s *credentials) pace(now time.Time) time.Duration {
	var wait time.Duration
	if now.Sub(s.began) > calmAfter {
		s.backoff.Reset()
	} else {
		wait = max(0, s.began.Add(s.backoff.Next()).Sub(now))
	}
	s.began = now.Add(wait)
	return wait
}

// run fetches a login and makes it the current one.
func (f *fetch) run(wait time.Duration) {
	s := f.s
	backoff.Sleep(s.c.life, wait)
	ctx, cancel := context.WithTimeout(s.c.life, fetchTotal)
	defer cancel()
	h := Hedge[*login]{Cluster: s.c, After: f.after, Pick: f.pick, Query: s.authenticate, Failed: f.failed}
	got, err := h.Run(ctx)
	s.mu.Lock()
	s.failure = nil
	switch {
	case err == nil:
		f.login, f.err = got.Result, nil
		s.current.Store(f.login)
		s.usual.Note(got.Took)
	case s.c.life.Err() != nil:
		f.err = ErrClosed
	default:
		s.failure, s.failedAt = f.err, time.Now()
	}
	s.fetching = nil
	s.mu.Unlock()
	close(f.done)
}

// pick chooses the first member, then others, and those to be shunned last. Of these it prefers the
// token's issuer to the member that refused the token.
func (f *fetch) pick(queried []*Member) *Member {
	if len(queried) == 0 && !slices.Contains(f.shun, f.first) {
		return f.first
	}
	for n := len(f.shun); n > 0; n-- {
		avoid := append(slices.Clone(queried), f.shun[:n]...)
		if m := f.s.c.Pick(avoid...); !slices.Contains(avoid, m) {
			return m
		}
	}
	return f.s.c.Pick(queried...)
}

// failed pauses after as many failures as there are members.
func (f *fetch) failed(err error) (wait time.Duration, final bool) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.failures++
	f.err = err
	if _, n := classify(err); n == stop {
		return 0, true
	}
	if statusOf(err) == nil || !isAnswer(err) {
		f.err = fmt.Errorf("%w: %w", errNoToken, err)
	}
	if f.failures%len(f.s.c.Members()) != 0 {
		return 0, false
	}
	return f.backoff.Next(), false
}

// soFar is the fetch's login, or why there is none yet.
func (f *fetch) soFar() (*login, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.login, f.err
}

// authenticate queries m for a login, once.
func (s *credentials) authenticate(ctx context.Context, m *Member) (*login, error) {
	var token string
	req := Request{Op: fmt.Sprintf("authenticate user %q", s.user), On: m, Local: true, anonymous: true}
	err := s.c.Do(ctx, req, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
		resp, err := etcdapi.Authenticate(ctx, m, &pb.AuthenticateRequest{Name: s.user, Password: s.password})
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
		l.renewAt = time.Now().Add(life - life/4)
	}
	return l, nil
}

// tokenLife is how long a JSON web token lasts according to its claims, or 0 if it does not say, or is
// another kind of token. Nothing is verified, because this only decides when to fetch the next one, and
// a wrong answer costs one refusal.
func tokenLife(token string, now time.Time) time.Duration {
	parts := strings.SplitN(token, ".", 3)
	if len(parts) < 3 {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 {
		return 0
	}
	return max(0, time.Unix(claims.Exp, 0).Sub(now))
}
