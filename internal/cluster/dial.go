package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// dialTotal bounds Dial if its context does not.
const dialTotal = 20 * time.Second

// Dial checks cfg and reaches at least one member. It queries all endpoints at once for their identity,
// and returns after the first good answer, which pins the cluster, and, if there is a user, a token. It
// processes the other answers in the background. It waits for members that are silent or in an election,
// and for a resolver that is silent or fails,
// until ctx ends, or for 20 s if ctx has no deadline, unless a member refuses the password. ctx bounds
// only Dial. If no endpoint serves, the error contains each endpoint's answer. With Config.Lazy it only
// checks cfg.
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
		until := time.Now().Add(dialTotal)
		if end, ok := ctx.Deadline(); ok {
			until = end.Add(time.Second) // after ctx, so that its end is what is reported
		}
		if err := c.reach(ctx, until, mayAnswer); err != nil {
			c.close(Grace) // Dial returns soon after ctx ends
			return nil, err
		}
	}
	c.Go(c.keep) // ends with Close
	if cfg.SyncEvery > 0 {
		c.Go(c.keepSynced) // ends with Close
	}
	return c, nil
}

// Reach returns nil once the cluster has been reached and its ID pinned. After Dial it returns nil at
// once, unless Lazy was set. With Lazy the first call that needs the cluster does what Dial would have
// done, and queries the endpoints repeatedly until one answers, until ctx ends, or for 20 s.
func (c *Cluster) Reach(ctx context.Context) error {
	return c.reachUntil(ctx, time.Now().Add(dialTotal))
}

func (c *Cluster) reachUntil(ctx context.Context, until time.Time) error {
	if c.id.Load() != 0 {
		return nil
	}
	ctx, leave := Apart(ctx)
	defer leave()
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
	return c.reach(ctx, until, mayRun)
}

var errNotReached = errors.New("no endpoint gave a good answer in time")

// reach queries all endpoints until one gives a good answer, until all have failed in ways that waiting
// does not help, or until the time until. It also gets the first token, so that Dial reports wrong
// credentials.
func (c *Cluster) reach(ctx context.Context, until time.Time, waitOut func(*Member, error) bool) error {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	decided := make(chan struct{})
	defer close(decided)
	list := c.list()
	errs := make([]error, len(list)) // the last error of each endpoint
	probed := make(chan firstProbe)
	for i, m := range list {
		c.Go(func() { c.probeUntilGood(firstProbe{i: i, member: m}, probed, decided, waitOut) }) // ends by probeTotal once decided, or with Close
	}
	for left := len(list); left > 0; {
		select {
		case p := <-probed:
			if p.err == nil {
				return c.logIn(ctx, p.member, until)
			}
			if _, next := classify(p.err); next == stop {
				return p.err
			}
			errs[p.i] = p.err
			if p.final {
				left--
			}
		case <-ctx.Done():
			return errors.Join(joinOnce(sayAll(list, errs)), EndOf(ctx))
		case <-late.C:
			return errors.Join(joinOnce(sayAll(list, errs)), errNotReached)
		case <-c.ended:
			return c.Err()
		}
	}
	return joinOnce(errs)
}

// sayAll adds to errs, of the endpoints in list, what is awaited of those that have none.
func sayAll(list []*Member, errs []error) []error {
	for i, m := range list {
		if errs[i] == nil {
			errs[i] = fmt.Errorf("%s: %s", m.Endpoint(), cmp.Or(m.line.Load().soFar(), "no answer yet"))
		}
	}
	return errs
}

// logIn gets the first token.
func (c *Cluster) logIn(ctx context.Context, m *Member, until time.Time) error {
	for {
		_, err := c.creds.For(ctx, m, until)
		if !errors.Is(err, errNoToken) || EndOf(ctx) != nil || !time.Now().Before(until) {
			return err
		}
	}
}

// firstProbe is a probe of an endpoint, the i-th, by reach.
type firstProbe struct {
	i      int
	member *Member
	err    error
	final  bool // the last probe of its endpoint
}

// probeUntilGood probes p's member until it gives a good answer, fails in a way that waiting
// does not help, or is no longer needed.
func (c *Cluster) probeUntilGood(p firstProbe, probed chan<- firstProbe, decided <-chan struct{}, waitOut func(*Member, error) bool) {
	for wait := backoff.Request(); !p.final; {
		p.err = c.probe(p.member)
		p.final = p.err == nil || !waitOut(p.member, p.err)
		select {
		case probed <- p:
		case <-decided:
			return
		}
		if !p.final && !backoff.Wait(wait.Next(), decided, c.life.Done()) {
			return
		}
	}
}

// passing reports whether etcd itself returned err because of an election, which may soon be over.
func passing(err error) bool {
	s := statusOf(err)
	return s != nil && s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "etcdserver: ")
}

// mayAnswer reports whether m, which failed with err, may answer later, because it is in an election, or
// was silent, or because its name was not resolved for now. A connection that it refused or ended is an
// answer, and so are a wrong certificate and a name that does not exist.
func mayAnswer(m *Member, err error) bool {
	return passing(err) || errors.Is(err, errNoToken) || IsCode(err, codes.DeadlineExceeded) ||
		IsCode(err, codes.Unavailable) && m.line.Load().mute.Load()
}

// mayRun reports whether m, which failed with err, may answer later, because mayAnswer, or because it
// does not run yet.
func mayRun(m *Member, err error) bool {
	return mayAnswer(m, err) || IsCode(err, codes.Unavailable)
}

// joinOnce joins errors in their order. An error that several endpoints share appears once.
func joinOnce(errs []error) error {
	said := make(map[string]bool)
	var all []error
	for _, err := range errs {
		if !said[err.Error()] {
			said[err.Error()] = true
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// hints say what the text of a failed first contact means, for an endpoint without TLS and for one with
// it. The first that matches and is not empty applies.
var hints = []struct {
	text        *regexp.Regexp
	plain, with string
}{
	{regexp.MustCompile("unexpected HTTP status code|malformed header"), "not an etcd server", "not an etcd server"},
	{regexp.MustCompile("first record does not look like a TLS handshake"), "", "the server does not speak TLS"},
	{regexp.MustCompile("authentication handshake failed: EOF"), "", "the server ended the TLS handshake; it may not speak TLS"},
	{regexp.MustCompile("error reading server preface"),
		"not an etcd server, or one that wants TLS", "not an etcd server, or one that wants a client certificate"},
	// TLS 1.3 reports a missing certificate after the handshake.
	{regexp.MustCompile("broken pipe|connection reset by peer"), "", "the server ended the connection; it may want a client certificate"},
	{regexp.MustCompile("authentication handshake failed|remote error: tls:"), "", "TLS failed"},
	{regexp.MustCompile("connection refused|no such file or directory"), "nobody listens there", "nobody listens there"},
	{regexp.MustCompile("Error while dialing: lookup .*: no such host"), "the resolver knows no such name", "the resolver knows no such name"},
}

const nobody = "nobody answers there"

func speechless(tls bool) string {
	wants := "TLS"
	if tls {
		wants = "a client certificate"
	}
	return "it takes connections and says nothing: stopped, overloaded, not an etcd server, or one that wants " + wants
}

// explain adds to err, of a failed first contact, what it probably means. No decision depends on its
// texts.
func explain(m *Member, err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%s: %w", m.Endpoint(), err)
	}
	plain := &plainStatus{err, s.Message()}
	hint := hintOf(s, m.line.Load().mute.Load() && !passing(err), m.endpoint.tls)
	if s.Code() == codes.DeadlineExceeded {
		hint = cmp.Or(m.line.Load().soFar(), hint)
	}
	if hint != "" {
		return fmt.Errorf("%s: %s: %w", m.Endpoint(), hint, plain)
	}
	return fmt.Errorf("%s: %w", m.Endpoint(), plain)
}

func hintOf(s *status.Status, mute, tls bool) string {
	switch mute = mute && s.Code() == codes.Unavailable; {
	case mute && strings.Contains(s.Message(), "Error while dialing: lookup"):
		return "its name was not resolved: the resolver is silent, slow or failing"
	case mute && strings.Contains(s.Message(), "Error while dialing"):
		return nobody
	case mute:
		return speechless(tls)
	case isUserEmpty(s.Err()):
		return "the cluster demands authentication, and there is no user name"
	case s.Code() == codes.Unimplemented:
		return "not an etcd server"
	}
	for _, h := range hints {
		hint := h.plain
		if tls {
			hint = h.with
		}
		if hint != "" && h.text.MatchString(s.Message()) {
			return hint
		}
	}
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return ""
}

// plainStatus is a gRPC status whose text is only its message.
type plainStatus struct {
	err  error
	text string
}

func (p *plainStatus) Error() string { return p.text }
func (p *plainStatus) Unwrap() error { return p.err }
