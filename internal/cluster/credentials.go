package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	fetchTotal = 9 * time.Second // bound of getting a token, all attempts together
	// failurePause is how long a refused user and password are not tried again: checking them
	// costs the server much.
	failurePause = time.Second
)

// grant is what requests carry. It is immutable, and shared by all of them.
type grant struct {
	md      metadata.MD
	ctx     context.Context // that and nothing else
	token   string          // empty: none is needed
	renewAt time.Duration   // on the Cluster's clock; 0: when it is refused
}

func newGrant(token string) *grant {
	g := &grant{token: token, md: metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)}
	if token != "" {
		g.md.Set(rpctypes.TokenFieldNameGRPC, token)
	}
	g.ctx = metadata.NewOutgoingContext(context.Background(), g.md)
	return g
}

// credentialStore holds the current grant, and the one flight that gets the next.
type credentialStore struct {
	user, password string
	bare           *grant                // without a token
	current        atomic.Pointer[grant] // nil: one must be fetched

	mu       sync.Mutex
	flight   *flight
	failure  error // of the last flight, if it was refused
	failedAt time.Duration
}

// flight is one fetch of a token, waited for by all who need it.
type flight struct {
	done  chan struct{} // closed when grant or err is set
	grant *grant
	err   error
}

func (s *credentialStore) init(user, password string) {
	s.user, s.password = user, password
	s.bare = newGrant("")
	if user == "" {
		s.current.Store(s.bare)
	}
}

// Outgoing returns ctx with the metadata that everything sent to etcd carries, in place of what
// metadata it had, and the auth token in it (empty: none). Where there is no token yet it waits
// for one, within ctx and 10 s; the error is then why there is none.
func (c *Cluster) Outgoing(ctx context.Context) (out context.Context, token string, err error) {
	g := c.grant()
	if g == nil {
		if g, err = c.fetch(ctx, nil); err != nil {
			return nil, "", err
		}
	}
	return metadata.NewOutgoingContext(ctx, g.md), g.token, nil
}

// TokenRefused tells that a server refused token; the next request fetches a new one. It does
// nothing if token is no longer the current one.
func (c *Cluster) TokenRefused(token string) {
	if c.creds.user == "" {
		return
	}
	if g := c.creds.current.Load(); g != nil && g.token == token {
		c.creds.current.CompareAndSwap(g, nil)
	}
}

// grant returns the current grant, nil if there is none. One that is about to expire still serves
// while the next is fetched.
func (c *Cluster) grant() *grant {
	g := c.creds.current.Load()
	if g != nil && c.stale(g) {
		_, _ = c.join(nil) // if that fails, the server will say when a new one is needed
	}
	return g
}

// stale reports whether g is about to expire by what it says itself.
func (c *Cluster) stale(g *grant) bool { return g.renewAt != 0 && c.now() >= g.renewAt }

// fetch waits for a token. The fetch itself outlives ctx: others wait for it too. near is asked
// first; nil: any member.
func (c *Cluster) fetch(ctx context.Context, near *Member) (*grant, error) {
	f, err := c.join(near)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.done:
		if err := c.Err(); err != nil && f.err != nil {
			return nil, err
		}
		return f.grant, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for an auth token: %w", EndOf(ctx))
	}
}

// join returns the flight under way, or begins one.
func (c *Cluster) join(near *Member) (*flight, error) {
	s := &c.creds
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		return s.flight, nil
	}
	if g := s.current.Load(); g != nil && !c.stale(g) { // another flight has just landed
		f := &flight{done: make(chan struct{}), grant: g}
		close(f.done)
		return f, nil
	}
	if s.failure != nil && c.now() < s.failedAt+failurePause {
		return nil, s.failure
	}
	f := &flight{done: make(chan struct{})}
	if !c.spawn(func() { c.fly(f, near) }) { // ends within fetchTotal, or with the Cluster
		return nil, c.Err()
	}
	s.flight = f
	return f, nil
}

// fly authenticates, and lands the flight.
func (c *Cluster) fly(f *flight, near *Member) {
	s := &c.creds
	f.grant, f.err = c.authenticate(near)
	s.mu.Lock()
	if f.err == nil {
		s.current.Store(f.grant)
	}
	s.failure, s.failedAt = nil, c.now()
	if _, next := judge(f.err, true); f.err != nil && next == stop {
		s.failure = f.err
	}
	s.flight = nil
	s.mu.Unlock()
	close(f.done)
}

// authenticate gets a token, or learns that none is needed.
func (c *Cluster) authenticate(near *Member) (*grant, error) {
	s := &c.creds
	var token string
	r := Request{Op: fmt.Sprintf("authenticate user %q", s.user), Repeat: Always, Total: fetchTotal, Local: true, anonymous: true, first: near}
	err := c.Do(c.life, r, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewAuthClient(m).Authenticate(ctx, &pb.AuthenticateRequest{Name: s.user, Password: s.password})
		if err != nil {
			return nil, err
		}
		token = resp.Token
		return resp.Header, nil
	})
	if is(err, rpctypes.ErrGRPCAuthNotEnabled) {
		return newGrant(""), nil
	}
	if err != nil {
		return nil, err
	}
	g := newGrant(token)
	if life := tokenLife(token, time.Now()); life > 0 {
		g.renewAt = c.now() + life - life/4
	}
	return g, nil
}
