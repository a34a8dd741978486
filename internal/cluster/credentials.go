package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	// failurePause is how long a refused user and password are not tried again, because
	// checking them is expensive for the server.
	failurePause = time.Second
	// Logins within calmAfter of each other are paced by a backoff.
	calmAfter = time.Second
	// Logins at one member in use, for the requests to it alone, are at least half of minOwnPause apart, and
	// then ever more, up to maxOwnPause.
	minOwnPause = 2 * coolDown
	maxOwnPause = 5 * time.Minute
)

// login is what requests carry: the result of one Authenticate. It is immutable, and shared by all of them.
type login struct {
	md      metadata.MD
	ctx     context.Context // with the token and nothing else
	token   string          // empty if none is needed
	issuer  *Member         // the member that issued it, or nil
	alone   bool            // for requests to the issuer only
	renewAt time.Duration   // on the Cluster's clock; 0 if it is renewed only once it is refused
}

func newLogin(token string, issuer *Member) *login {
	l := &login{token: token, issuer: issuer, md: metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)}
	if token != "" {
		l.md.Set(rpctypes.TokenFieldNameGRPC, token)
	}
	l.ctx = metadata.NewOutgoingContext(context.Background(), l.md)
	return l
}

// credentials are the user of a Cluster, its current login, and the one fetch of the next.
//
// A member may refuse a token because the token has expired, and then a new one helps, or
// because the member is at fault, with a wrong key or a wrong clock. So each Member remembers
// the last login that it accepted and the last that it refused. A first refusal fetches a new
// token. If the member refuses that one too, and has accepted none in between, the other
// members decide: if one of them accepts the token, the member that refuses it is blamed and
// the token stays; if none does, a further refusal fetches another. That the others accept it
// proves nothing about the member that refuses it, which may have restarted and forgotten it. So
// the next login is at that member, and for the requests to it alone.
type credentials struct {
	c              *Cluster
	user, password string
	bare           *login                // without a token
	current        atomic.Pointer[login] // nil if one must be fetched

	at sync.Map // by endpoint: when a member that is not in use was last logged in at

	mu       sync.Mutex
	fetching *fetch
	shun     []*Member       // for the next fetch: the members that refused the last login, and the one that issued it
	usual    Usual           // how long a login takes
	began    time.Duration   // when the last fetch began, or 0
	backoff  backoff.Backoff // between that and the next fetch
	failure  error           // of the last fetch, if user and password were refused
	failedAt time.Duration
}

// fetch is one login under way, shared by all callers that need it.
type fetch struct {
	done  chan struct{} // closed when login or err is set
	login *login
	err   error
}

func newCredentials(c *Cluster, user, password string) *credentials {
	s := &credentials{c: c, user: user, password: password, bare: newLogin("", nil),
		backoff: backoff.Quick()}
	if user == "" {
		s.current.Store(s.bare)
	}
	return s
}

// For returns the login for a request to m. If there is none it waits for one, within ctx and
// before the time until; m is queried first, unless it refused the last one. The fetch continues after
// ctx ends, because other callers wait for it too. A login that is about to expire is still
// used while the next is fetched.
func (s *credentials) For(ctx context.Context, m *Member, until time.Time) (*login, error) {
	if own := m.own.Load(); own != nil {
		if s.stale(own) {
			s.logInAt(m)
		}
		return own, nil
	}
	l := s.current.Load()
	if l != nil {
		if s.stale(l) {
			_, _ = s.join(m) // if that fails, the server says when a new one is needed
		}
		return l, nil
	}
	f, err := s.join(m)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case <-f.done:
		if err := s.c.Err(); err != nil && f.err != nil {
			return nil, err
		}
		return f.login, f.err
	case <-s.c.ended:
		return nil, s.c.Err()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for an auth token: %w", EndOf(ctx))
	case <-late.C:
		return nil, errNoToken
	}
}

var errNoToken = errors.New("no auth token came in time")

// after returns the login for a probe of m, which refused l with err; an error: there is none to try.
// A member that is not in use yet may be newer than l, and then does not know it, even if other members accept it.
// So the login is at m itself, and proves m alone.
func (s *credentials) after(ctx context.Context, m *Member, l *login, err error, until time.Time) (*login, error) {
	if s.c.uses(m) {
		if !s.Refused(m, l.token, err) {
			return nil, explain(m, err)
		}
		return s.For(ctx, m, until)
	}
	now := s.c.now()
	if last, ok := s.at.Load(m.endpoint); ok && now < last.(time.Duration)+coolDown {
		return nil, explain(m, err)
	}
	s.at.Store(m.endpoint, now)
	return s.loginAt(ctx, m, until)
}

// loginAt is a login at m.
func (s *credentials) loginAt(ctx context.Context, m *Member, until time.Time) (*login, error) {
	bound, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return s.authenticate(bound, m)
}

// logInAt begins a login at m for the requests to m alone, unless the last one was lately.
func (s *credentials) logInAt(m *Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.c.now()
	if now < m.ownFrom {
		return
	}
	m.ownFrom = now + m.ownPause.Next()
	s.c.spawn(func() { // ends within probeTotal
		own, err := s.loginAt(s.c.life, m, time.Now().Add(probeTotal))
		if err == nil {
			own.alone = true
			m.own.Store(own)
		}
	})
}

// any is the login for a request to m, or one without a token; it does not wait.
func (s *credentials) any(m *Member) *login {
	if l := m.own.Load(); l != nil {
		return l
	}
	if l := s.current.Load(); l != nil {
		return l
	}
	return s.bare
}

// stale reports whether l is about to expire according to its own claims.
func (s *credentials) stale(l *login) bool { return l.renewAt != 0 && s.c.now() >= l.renewAt }

// Accepted records that m served a request with l.
func (s *credentials) Accepted(m *Member, l *login) {
	if m.accepted.Load() != l {
		m.accepted.Store(l)
		if !l.alone {
			m.refused.Store(nil)
		}
	}
}

// Refused records that m refused token, with err, and reports whether trying m again may help.
// If not, the token stays, and the caller has to try another member.
func (s *credentials) Refused(m *Member, token string, err error) bool {
	if s.user == "" {
		return true // an identity from the certificate is just sent again
	}
	again, blamed := s.refused(m, token)
	if blamed {
		s.logInAt(m)
		s.c.Failed(m, fmt.Errorf("it refuses a token that other members accept: %w", err))
	}
	return again
}

func (s *credentials) refused(m *Member, token string) (again, blamed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := m.own.Load(); own != nil && own.token == token {
		if m.accepted.Load() == own { // until now
			m.ownFrom = 0
			m.ownPause.Reset()
		}
		m.own.Store(nil)
		return true, false
	}
	l := s.current.Load()
	if l == nil || l.token != token {
		return true, false // there is another already, or it is being fetched
	}
	if !s.c.uses(m) {
		return false, false // it cannot invalidate a token
	}
	before := m.refused.Swap(l)
	m.accepted.Store(nil)
	elsewhere, others := s.acceptedElsewhere(m, l)
	switch {
	case before != nil && elsewhere:
		s.forgetAccepted(l) // each further blame needs new evidence
		return false, true
	case before != nil && before != l && others:
		return false, false
	}
	s.shun = []*Member{m, l.issuer}
	s.current.CompareAndSwap(l, nil)
	return true, false
}

// acceptedElsewhere reports whether a member other than m has accepted l, and whether there are others.
func (s *credentials) acceptedElsewhere(m *Member, l *login) (accepted, others bool) {
	for _, o := range s.c.Members() {
		if o != m {
			others = true
			accepted = accepted || o.accepted.Load() == l
		}
	}
	return accepted, others
}

func (s *credentials) forgetAccepted(l *login) {
	for _, o := range s.c.list() {
		o.accepted.CompareAndSwap(l, nil)
	}
}

// join returns the fetch under way, or begins one.
func (s *credentials) join(first *Member) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetching != nil {
		return s.fetching, nil
	}
	if l := s.current.Load(); l != nil && !s.stale(l) { // another fetch has just ended
		f := &fetch{done: make(chan struct{}), login: l}
		close(f.done)
		return f, nil
	}
	now := s.c.now()
	if s.failure != nil && now < s.failedAt+failurePause {
		return nil, s.failure
	}
	f, wait := &fetch{done: make(chan struct{})}, s.pace(now)
	round := &loginRound{s: s, first: first, shun: s.shun, after: s.usual.HedgeAfter(maxLoginHedge)}
	if !s.c.spawn(func() { s.run(f, round, wait) }) { // ends within fetchTotal and wait, or with the Cluster
		return nil, s.c.Err()
	}
	s.fetching, s.shun = f, nil
	return f, nil
}

// pace returns how long a fetch requested now waits before it begins.
func (s *credentials) pace(now time.Duration) time.Duration {
	var wait time.Duration
	if s.began == 0 || now-s.began > calmAfter {
		s.backoff.Reset()
	} else {
		wait = max(0, s.began+s.backoff.Next()-now)
	}
	s.began = max(1, now+wait)
	return wait
}

// run fetches a login and makes it the current one.
func (s *credentials) run(f *fetch, round *loginRound, wait time.Duration) {
	backoff.Sleep(s.c.life, wait)
	var trip time.Duration
	f.login, trip, f.err = round.run()
	s.mu.Lock()
	s.failure, s.failedAt = nil, s.c.now()
	if f.err == nil {
		s.current.Store(f.login)
		s.usual.Note(trip)
	} else if _, next := classify(f.err); next == stop {
		s.failure = f.err
	}
	s.fetching = nil
	s.mu.Unlock()
	close(f.done)
}

// Outgoing returns ctx with the metadata of everything that is sent to m, instead of its own,
// and the auth token in it, which is empty if none is needed. If there is no token yet it waits for one, within ctx
// and 10 s; the error then says why there is none.
func (c *Cluster) Outgoing(ctx context.Context, m *Member) (out context.Context, token string, err error) {
	until := time.Now().Add(outgoingTotal)
	if err := c.reachUntil(ctx, until); err != nil {
		return nil, "", err
	}
	l, err := c.creds.For(ctx, m, until)
	if err != nil {
		return nil, "", err
	}
	return metadata.NewOutgoingContext(ctx, l.md), l.token, nil
}

// outgoingTotal bounds Outgoing.
const outgoingTotal = 10 * time.Second

// TokenRefused records that m refused token, with err, and reports whether trying m again, with
// what Outgoing then returns, may help. If not, m alone refuses the token, or may be the only
// one that does: the caller has to try another member.
func (c *Cluster) TokenRefused(m *Member, token string, err error) bool {
	return c.creds.Refused(m, token, err)
}

// TokenAccepted records that m accepted token on a stream. Txn and Do record that themselves.
func (c *Cluster) TokenAccepted(m *Member, token string) {
	if l := c.creds.any(m); l != c.creds.bare && l.token == token {
		c.creds.Accepted(m, l)
	}
}
