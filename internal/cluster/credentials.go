package cluster

import (
	"cmp"
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
	// failurePause is how long a login that was refused is not tried again, because checking a password
	// is expensive for the server.
	failurePause = time.Second
	// Logins within calmAfter of each other are paced by a backoff.
	calmAfter = time.Second
	// Logins at a member in use, for the requests to it alone, are at least half of minOwnPause apart.
	// The pause grows up to maxOwnPause.
	minOwnPause = 2 * coolDown
	maxOwnPause = 5 * time.Minute
)

// login is the result of one Authenticate, which requests carry. It is immutable, and shared by all of
// them.
type login struct {
	md      metadata.MD
	ctx     context.Context // with the token and nothing else
	token   string          // empty if none is needed
	issuer  *Member         // the member that issued it; may be nil
	alone   bool            // for requests to the issuer only
	renewAt time.Time       // zero if it is renewed only after a refusal
}

func newLogin(token string, issuer *Member) *login {
	l := &login{token: token, issuer: issuer, md: metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)}
	if token != "" {
		l.md.Set(rpctypes.TokenFieldNameGRPC, token)
	}
	l.ctx = metadata.NewOutgoingContext(context.Background(), l.md)
	return l
}

// stale reports whether l is about to expire according to its claims.
func (l *login) stale() bool { return !l.renewAt.IsZero() && !time.Now().Before(l.renewAt) }

// credentials are the user of a Cluster, its current login, and the one fetch of the next. What follows
// from a member's refusal of a token depends on what it and the other members accepted and refused
// before; docs/decisions/credentials.md has the cases and the reasons.
type credentials struct {
	c              *Cluster
	user, password string
	bare           *login                // without a token
	current        atomic.Pointer[login] // nil if one must be fetched

	at sync.Map // by endpoint, when a member that is not in use was last logged in at

	mu       sync.Mutex
	fetching *fetch
	shun     []*Member       // members that the next fetch queries last: they refused the last login, or issued it
	usual    Usual           // how long a login takes
	began    time.Time       // when the last fetch began
	backoff  backoff.Backoff // between that and the next fetch
	failure  error           // of the last fetch; it wraps errNoToken, unless the server answered
	failedAt time.Time
}

func newCredentials(c *Cluster, user, password string) *credentials {
	s := &credentials{c: c, user: user, password: password, bare: newLogin("", nil),
		backoff: backoff.Quick()}
	if user == "" {
		s.current.Store(s.bare)
	}
	return s
}

// For returns the login for a request to m. If there is none it waits for one until ctx ends, or the
// time until has come. m is queried first, unless it refused the last login. The fetch continues after
// ctx ends, because other callers wait for it too. A login that is about to expire is still used while
// the next is fetched.
func (s *credentials) For(ctx context.Context, m *Member, until time.Time) (*login, error) {
	l := cmp.Or(m.own.Load(), s.current.Load())
	switch {
	case l == nil:
		return s.await(ctx, m, until)
	case !l.stale():
	case l.alone:
		s.logInAt(m)
	default:
		_, _ = s.join(m) // if that fails, a refusal shows when a new one is needed
	}
	return l, nil
}

// await waits for the login that is being fetched.
func (s *credentials) await(ctx context.Context, m *Member, until time.Time) (*login, error) {
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
		l, err := f.soFar()
		if err != nil {
			err = fmt.Errorf("%w: %w", err, EndOf(ctx))
		}
		return l, err
	case <-late.C:
		return f.soFar()
	}
}

var errNoToken = errors.New("no auth token came")

// after returns the login for a probe of m with ctx, after m refused l with err. It returns an error if
// there is no other login to try. A member that is not in use yet may be newer than l, and then does
// not know l, even if other members accept it. So the login is at m itself, and proves only m.
func (s *credentials) after(ctx context.Context, m *Member, l *login, err error) (*login, error) {
	if s.c.uses(m) {
		if !s.Refused(m, l.token, err) {
			return nil, explain(m, err)
		}
		until, _ := ctx.Deadline()
		return s.For(s.c.life, m, until)
	}
	now := time.Now()
	if last, ok := s.at.Load(m.endpoint); ok && now.Sub(last.(time.Time)) < coolDown {
		return nil, explain(m, err)
	}
	s.at.Store(m.endpoint, now)
	return s.authenticate(ctx, m)
}

// logInAt begins a login at m for the requests to m alone, unless the last one was recent.
func (s *credentials) logInAt(m *Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(m.ownFrom) {
		return
	}
	m.ownFrom = now.Add(m.ownPause.Next())
	s.c.Go(func() { // ends with its one try
		if own, err := s.authenticate(s.c.life, m); err == nil {
			own.alone = true
			m.own.Store(own)
		}
	})
}

// any returns the login for a request to m, or one without a token if there is none. It does not wait.
func (s *credentials) any(m *Member) *login {
	return cmp.Or(m.own.Load(), s.current.Load(), s.bare)
}

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
		return true // without a token, the identity is the certificate's, and the request is just sent again
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
			m.ownFrom = time.Time{}
			m.ownPause.Reset()
		}
		m.own.Store(nil)
		return true, false
	}
	l := s.current.Load()
	if l == nil || l.token != token {
		return true, false // there is another one already, or one is being fetched
	}
	if !s.c.uses(m) {
		return false, false // a refusal by m cannot invalidate the token
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

// Outgoing returns ctx with its metadata replaced by that of everything that is sent to m, and the auth
// token in that, which is empty if none is needed. If there is no token yet it waits for one until ctx
// ends, and for 10 s at most. Its error says why there is no token.
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

// TokenRefused records that m refused token, with err, and reports whether trying m again, with what
// Outgoing then returns, may help. If not, m is or may be the only member that refuses the token, and
// the caller has to try another one.
func (c *Cluster) TokenRefused(m *Member, token string, err error) bool {
	return c.creds.Refused(m, token, err)
}

// TokenAccepted records that m accepted token on a stream. Txn and Do record that themselves.
func (c *Cluster) TokenAccepted(m *Member, token string) {
	if l := c.creds.any(m); l != c.creds.bare && l.token == token {
		c.creds.Accepted(m, l)
	}
}
