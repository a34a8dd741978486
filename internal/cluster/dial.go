package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// dialTotal bounds Dial where its context does not.
const dialTotal = 12 * time.Second

// Dial checks cfg and reaches at least one member: it asks all endpoints at once who they are, and
// is done with the first good answer, which pins the cluster, and a token if there is a user. The
// other answers are taken in the background. ctx bounds Dial alone. When no endpoint serves, the
// error holds what each of them said.
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
	if err := c.reach(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.spawn(c.keep) // ends with Close
	return c, nil
}

// firstLook is what an endpoint's first probe came to.
type firstLook struct {
	member *Member
	err    error
}

func (c *Cluster) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTotal, fmt.Errorf("no good answer within %v", dialTotal))
	defer cancel()
	decided := make(chan struct{})
	defer close(decided)
	list := c.list()
	looks := make(chan firstLook, len(list))
	for _, m := range list {
		c.spawn(func() { looks <- firstLook{m, c.look(m, decided)} }) // ends by probeTotal once decided, or with Close
	}
	errs := make(map[*Member]error, len(list))
	for len(errs) < len(list) {
		select {
		case l := <-looks:
			if l.err == nil {
				return c.login(ctx)
			}
			errs[l.member] = l.err
		case <-ctx.Done():
			return errors.Join(EndOf(ctx), joinLooks(list, errs))
		}
	}
	return joinLooks(list, errs)
}

// look probes m until it gives a good answer, or one that will not change soon, or it no longer matters.
func (c *Cluster) look(m *Member, decided <-chan struct{}) error {
	pause := minBackoff
	for {
		err := c.probe(c.life, m)
		if err == nil || !passing(err) {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-decided:
		case <-c.life.Done():
		}
		if t.Stop() { // decided, or closed
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// passing reports whether etcd itself said so, and may say otherwise soon: during an election.
func passing(err error) bool {
	s := statusOf(err)
	return s != nil && s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "etcdserver: ")
}

// login gets the first token, so that wrong credentials are told by Dial.
func (c *Cluster) login(ctx context.Context) error {
	if c.creds.current.Load() != nil {
		return nil
	}
	_, err := c.fetch(ctx, nil)
	return err
}

// joinLooks joins the endpoints' errors in the endpoints' order; what all say alike, once.
func joinLooks(list []*Member, errs map[*Member]error) error {
	all := make([]error, 0, len(list))
	said := make(map[string]bool)
	for _, m := range list {
		err := errs[m]
		if err == nil {
			err = fmt.Errorf("%s: no answer yet", m.Endpoint())
		}
		if !said[err.Error()] {
			said[err.Error()] = true
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// explain says in plain words what a failed first contact means. Texts decide nothing here.
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
	case strings.Contains(msg, "error reading server preface") && timedOut(msg):
		hint = "it takes connections and says nothing: stopped, overloaded, or not an etcd server"
	case strings.Contains(msg, "error reading server preface"):
		hint = "not an etcd server, or one that wants TLS"
		if m.endpoint.tls {
			hint = "not an etcd server, or one that wants a client certificate"
		}
	case m.endpoint.tls && broken(msg): // TLS 1.3 tells a missing certificate after the handshake
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

// timedOut reports whether nothing came, rather than something wrong or the other side's end: it is
// gRPC that then closes the connection.
func timedOut(msg string) bool {
	return strings.Contains(msg, "use of closed network connection") || strings.Contains(msg, "i/o timeout")
}

// broken reports whether a connection was made and then lost.
func broken(msg string) bool {
	return strings.Contains(msg, "broken pipe") || strings.Contains(msg, "connection reset by peer")
}

// plainStatus is a gRPC status whose text is its message alone.
type plainStatus struct {
	err  error
	text string
}

func (p *plainStatus) Error() string { return p.text }
func (p *plainStatus) Unwrap() error { return p.err }
