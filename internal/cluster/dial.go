package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// dialTotal bounds Dial if its context does not.
const dialTotal = 12 * time.Second

// Dial checks cfg and reaches at least one member. It queries all endpoints at once for their
// identity, and returns after the first good answer, which pins the cluster, and, if there is a
// user, a token. It processes the other answers in the background. ctx bounds Dial only. If no
// endpoint serves, the error contains each endpoint's answer. With Config.Lazy it only checks
// cfg.
func Dial(ctx context.Context, cfg Config) (*Cluster, error) {
	if ctx == nil {
		return nil, errors.New("nil context")
	}
	if err := EndOf(ctx); err != nil {
		return nil, err
	}
	c, err := newCluster(cfg)
	if err != nil {
		return nil, err
	}
	if !cfg.Lazy {
		if err := c.reach(ctx, time.Now().Add(dialTotal), passing); err != nil {
			c.Close()
			return nil, err
		}
	}
	c.spawn(c.keep) // ends with Close
	return c, nil
}

// Reach returns nil once the cluster has been reached and its ID pinned. After Dial that is so
// unless Lazy was set. Then the first call that needs the cluster does what Dial would have
// done, and queries the endpoints again until one answers, until ctx ends, or for 12 s.
func (c *Cluster) Reach(ctx context.Context) error {
	return c.reachUntil(ctx, time.Now().Add(dialTotal))
}

func (c *Cluster) reachUntil(ctx context.Context, until time.Time) error {
	if c.id.Load() != 0 {
		return nil
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if !c.reaching.Enter(wait) {
		return cmp.Or(EndOf(ctx), errNotReached)
	}
	defer c.reaching.Leave()
	if c.id.Load() != 0 {
		return nil
	}
	defer c.nudge()
	return c.reach(ctx, until, transient)
}

var errNotReached = errors.New("no endpoint gave a good answer in time")

// firstProbe is the first probing of an endpoint.
type firstProbe struct {
	member *Member
	last   atomic.Pointer[error] // the last probe's error; nil until a probe has ended
}

var errNoAnswerYet = errors.New("no answer yet")

func (l *firstProbe) err() error {
	if p := l.last.Load(); p != nil {
		return *p
	}
	return fmt.Errorf("%s: %w", l.member.Endpoint(), errNoAnswerYet)
}

// reach queries all endpoints until one gives a good answer, all have failed in ways that
// waiting does not help, or the time is up.
func (c *Cluster) reach(ctx context.Context, until time.Time, waitOut func(error) bool) error {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	decided := make(chan struct{})
	defer close(decided)
	list := c.list()
	probes := make([]*firstProbe, len(list))
	done := make(chan *firstProbe, len(list))
	for i, m := range list {
		l := &firstProbe{member: m}
		probes[i] = l
		c.spawn(func() { c.probeUntilGood(l, decided, waitOut); done <- l }) // ends by probeTotal once decided, or with Close
	}
	for range list {
		select {
		case l := <-done:
			if l.err() == nil {
				return c.login(ctx, l.member, until)
			}
		case <-ctx.Done():
			return errors.Join(EndOf(ctx), joinProbes(probes))
		case <-late.C:
			return errors.Join(errNotReached, joinProbes(probes))
		case <-c.ended:
			return c.Err()
		}
	}
	return joinProbes(probes)
}

// probeUntilGood probes l's member until it gives a good answer, fails in a way that waiting
// does not help, or is no longer needed.
func (c *Cluster) probeUntilGood(l *firstProbe, decided <-chan struct{}, waitOut func(error) bool) {
	for wait := backoff.Request(); ; {
		err := c.probe(c.life, l.member)
		l.last.Store(&err)
		if err == nil || !waitOut(err) || !backoff.Wait(wait.Next(), decided, c.life.Done()) {
			return
		}
	}
}

// passing reports whether etcd itself returned err for a reason that may pass soon: an
// election.
func passing(err error) bool {
	s := statusOf(err)
	return s != nil && s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "etcdserver: ")
}

// transient reports whether m may answer later: it is in an election, or it does not run yet.
func transient(err error) bool {
	return passing(err) || IsCode(err, codes.Unavailable) || IsCode(err, codes.DeadlineExceeded)
}

// login gets the first token, so that Dial reports wrong credentials.
func (c *Cluster) login(ctx context.Context, m *Member, until time.Time) error {
	_, err := c.creds.For(ctx, m, until)
	return err
}

// joinProbes joins the endpoints' errors in the endpoints' order; an error that all share
// appears once.
func joinProbes(probes []*firstProbe) error {
	all := make([]error, 0, len(probes))
	said := make(map[string]bool)
	for _, l := range probes {
		err := l.err()
		if err != nil && !said[err.Error()] {
			said[err.Error()] = true
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// explain says in plain words what a failed first contact means. No decision depends on its
// texts.
func explain(m *Member, err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%s: %w", m.Endpoint(), err)
	}
	hint := ""
	msg := s.Message()
	switch {
	case is(err, rpctypes.ErrGRPCUserEmpty):
		hint = "the cluster demands authentication, and there is no user name"
	case s.Code() == codes.Unimplemented, strings.Contains(msg, "unexpected HTTP status code"), strings.Contains(msg, "malformed header"):
		hint = "not an etcd server"
	case strings.Contains(msg, "first record does not look like a TLS handshake"):
		hint = "the server does not speak TLS"
	case strings.Contains(msg, "authentication handshake failed: EOF"):
		hint = "the server ended the TLS handshake; it may not speak TLS"
	case strings.Contains(msg, "error reading server preface"):
		hint = "not an etcd server, or one that wants " + m.endpoint.unasked()
		if saysNothing(msg) {
			hint = "it takes connections and says nothing: stopped, overloaded, " + hint
		}
	case m.endpoint.tls && broken(msg): // TLS 1.3 reports a missing certificate after the handshake
		hint = "the server ended the connection; it may want a client certificate"
	case strings.Contains(msg, "authentication handshake failed"), strings.Contains(msg, "remote error: tls:"):
		hint = "TLS failed"
	case strings.Contains(msg, "connection refused"), strings.Contains(msg, "no such file or directory"):
		hint = "nobody listens there"
	case s.Code() == codes.DeadlineExceeded:
		hint = "no answer in time"
	}
	if hint == "" {
		return fmt.Errorf("%s: %w", m.Endpoint(), &plainStatus{err, msg})
	}
	return fmt.Errorf("%s: %s: %w", m.Endpoint(), hint, &plainStatus{err, msg})
}

// saysNothing reports whether msg may mean that the other side sent nothing, rather than
// something wrong: gRPC closes a connection that stays silent, and sometimes one that the other
// side is closing.
func saysNothing(msg string) bool {
	return strings.Contains(msg, "use of closed network connection") || strings.Contains(msg, "i/o timeout")
}

// broken reports whether a connection was made and then lost.
func broken(msg string) bool {
	return strings.Contains(msg, "broken pipe") || strings.Contains(msg, "connection reset by peer")
}

// plainStatus is a gRPC status whose text is only its message.
type plainStatus struct {
	err  error
	text string
}

func (p *plainStatus) Error() string { return p.text }
func (p *plainStatus) Unwrap() error { return p.err }
