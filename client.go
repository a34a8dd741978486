package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// A Client is a connection to one etcd cluster. Its methods are safe for concurrent use.
type Client struct {
	cfg     Config
	cluster *cluster.Cluster
	writes  *batch.Sender
	watches *watcher.Hub
	reader  *session.Reader
	cleanup *cleanup.Group
	kv      *kv.Client

	leaves *leavings // nil without Config.ReclaimDir

	deferral session.Deferral // defers the revocation of ended sessions' leases
	layouts  session.Layouts

	own     gate.Gate               // entered to replace session
	session atomic.Pointer[Session] // the client's session; nil if there was none

	mu       sync.Mutex
	closed   bool
	sessions map[*session.Session]struct{} // still open
	sweepAt  int                           // the number of sessions at which ended ones are dropped
	making   int                           // calls that make a session; none begins once the client is closed
	made     chan struct{}                 // closed when that is so and none is under way
	life     context.Context               // the context of those calls
	end      context.CancelFunc
	closing  sync.Once
	left     error // what Close could not remove
}

// Dial checks cfg and connects to the cluster. It returns when at least one member has answered, or
// with an error that says, for each endpoint, what was wrong. It does not wait where nobody listens,
// nor for other members once one has refused the password. For members that are silent or in an election
// it waits until ctx ends, or for 20 s if ctx has no deadline.
// With Config.Lazy it only checks cfg. ctx bounds only the call. The caller must close the Client.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if ctx == nil {
		return nil, errors.New("pawl: dial: nil context")
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("pawl: dial: %w", err)
	}
	to, err := cfg.connection()
	if err != nil {
		return nil, fmt.Errorf("pawl: %w", err)
	}
	leaves, err := openLeavings(ctx, cfg.ReclaimDir)
	if err != nil {
		return nil, fmt.Errorf("pawl: dial: %w", err)
	}
	conn, err := cluster.Dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("pawl: dial: %w", err)
	}
	c := &Client{
		cfg: cfg, leaves: leaves, cluster: conn, writes: batch.New(conn), watches: watcher.New(conn), reader: session.NewReader(conn), cleanup: &cleanup.Group{}, kv: hooks.KVClient(conn).(*kv.Client),
		own: gate.New(1), sessions: make(map[*session.Session]struct{}), made: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(context.Background())
	if leaves != nil {
		leaves.reclaimer = c.reclaimer
		leaves.sweeper = c.reclaimer(leaves.dir)
	}
	return c, nil
}

// KV returns a client of the same cluster for the caller's own transactions, guarded by a lock
// or a term. It is usable until Close.
func (c *Client) KV() *kv.Client {
	if c == nil {
		return nil // the calls of a nil kv.Client report that
	}
	return c.kv
}

// Session returns the client's session, which all callers share. It is granted at first use, with
// Config.Session, and again after it has ended. If ctx ends while another call is granting it, Session
// returns ctx's error. Closing the session closes it for all callers.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	if err := c.usable(ctx); err != nil {
		return nil, fmt.Errorf("pawl: session: %w", err)
	}
	if s := c.session.Load(); s != nil && s.Err() == nil {
		return s, nil
	}
	sweep := sweepFor(ctx, c.cfg.Session)
	ctx, leave := cluster.Apart(ctx) // others wait for what is granted
	defer leave()
	if !c.own.Enter(ctx) {
		return nil, fmt.Errorf("pawl: session: %w", cluster.EndOf(ctx))
	}
	defer c.own.Leave()
	if s := c.session.Load(); s != nil && s.Err() == nil {
		return s, nil
	}
	if err := c.usable(ctx); err != nil { // after the wait
		return nil, fmt.Errorf("pawl: session: %w", err)
	}
	s, err := c.newSession(ctx, c.cfg.Session, sweep)
	if err != nil {
		return nil, err
	}
	c.session.Store(s)
	return s, nil
}

// NewSession makes a new session, on a new lease or, with Options.Resume, on that of a detached
// session. ctx bounds only the call. After an error nothing is left that the caller has to end. The
// Session ends with the Client if the caller does not close it earlier.
func (c *Client) NewSession(ctx context.Context, opts lease.Options) (*Session, error) {
	if err := c.usable(ctx); err != nil {
		return nil, fmt.Errorf("pawl: session: %w", err)
	}
	return c.newSession(ctx, opts, sweepFor(ctx, opts))
}

// newSession is NewSession, which waits for a sweep for so long.
func (c *Client) newSession(ctx context.Context, opts lease.Options, sweep time.Duration) (*Session, error) {
	engine, err := c.grant(ctx, opts, sweep)
	if err != nil {
		return nil, fmt.Errorf("pawl: session: %w", err)
	}
	return &Session{engine: engine, client: c}, nil
}

// grant makes a session that Close will end. Close also ends calls of grant, and waits for
// them, so that it knows what was left. A call whose context stands still is waited for no
// longer than pending removals are.
func (c *Client) grant(ctx context.Context, opts lease.Options, sweep time.Duration) (*session.Session, error) {
	if !c.begin() {
		return nil, errClosed
	}
	defer c.ends()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if err := c.cluster.Reach(ctx); err != nil { // because a Handle is compared with the cluster's ID
		if c.life.Err() != nil {
			return nil, errClosed
		}
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	c.sweep(ctx, sweep)
	engine, err := session.Grant(ctx, c.host(), opts)
	switch {
	case c.life.Err() != nil:
		if err == nil {
			giveUp(engine, opts)
		}
		return nil, errClosed
	case err != nil:
		return nil, err
	}
	c.leave(ctx, engine, opts.WithDefaults().Owner)
	c.keep(engine)
	return engine, nil
}

// giveUp ends a session that no caller has received. The lease of a session that was taken over is left
// to expire, because others may rely on what it holds.
func giveUp(engine *session.Session, opts lease.Options) {
	if opts.Resume != (lease.Handle{}) {
		engine.Detach()
		return
	}
	engine.CloseInBackground()
	<-engine.Stopped()
}

// begin counts a call that makes a session. It returns false if the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.making++
	return true
}

// ends ends what begin counted.
func (c *Client) ends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.making--; c.closed && c.making == 0 {
		close(c.made)
	}
}

// keep adds a session to those that Close ends. It drops ended ones whenever the number of sessions may
// have doubled, so that each of ten thousand sessions costs no more than each of ten.
func (c *Client) keep(s *session.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil { // Close did not wait for it any longer
		s.CloseInBackground()
		return
	}
	if len(c.sessions) >= c.sweepAt {
		maps.DeleteFunc(c.sessions, func(old *session.Session, _ struct{}) bool { return stopped(old) })
		c.sweepAt = max(minSweepAt, 2*len(c.sessions))
	}
	c.sessions[s] = struct{}{}
}

func stopped(s *session.Session) bool {
	select {
	case <-s.Stopped():
		return true
	default:
		return false
	}
}

// minSweepAt is how many sessions are kept before any is dropped.
const minSweepAt = 16

// removalWait is how long Close waits for pending removals.
const removalWait = 2 * time.Second

// Close ends the sessions that are still open or being made, with lease.ErrClosed, revokes their
// leases, waits at most 2 s for pending removals at the server, and closes the connections. Its error
// says what was left to expire. Every goroutine of the client is gone when it returns. It can be called
// again, and then returns the same.
func (c *Client) Close() error {
	if c == nil || c.cluster == nil {
		return nil
	}
	c.closing.Do(func() { c.left = c.close() })
	return c.left
}

func (c *Client) close() error {
	c.mu.Lock()
	c.closed = true
	if c.making == 0 {
		close(c.made)
	}
	c.mu.Unlock()
	c.end()
	backoff.Wait(removalWait, c.made, nil) // no more than an instant, because all of their requests have ended
	c.mu.Lock()
	open := c.sessions
	c.sessions = nil
	c.mu.Unlock()

	for s := range open {
		s.CloseInBackground()
	}
	for s := range open {
		<-s.Stopped()
	}
	left := c.cleanup.Close(removalWait)
	if n := c.leaves.close(); n > 0 {
		c.cluster.Logger().Warn("files in Config.ReclaimDir are not removed yet: the file system does not answer", "files", n)
	}
	c.watches.Close()
	_ = c.cluster.Close()
	if len(left) > 0 {
		return fmt.Errorf("pawl: close: left to expire: %q", left)
	}
	return nil
}

// usable returns why the client, or ctx, cannot be used.
func (c *Client) usable(ctx context.Context) error {
	if c == nil {
		return errors.New("nil Client")
	}
	if ctx == nil {
		return errNilContext
	}
	if c.cluster == nil {
		return errors.New("Client was not made by Dial")
	}
	if ctx.Err() != nil {
		return cluster.EndOf(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	return c.cluster.Err()
}

var errNilContext = errors.New("nil context")

// errClosed is the error of a closed client.
var errClosed = fmt.Errorf("client: %w", lease.ErrClosed)

func (c *Client) host() session.Host {
	return session.Host{
		Cluster: c.cluster, Batch: c.writes, Watches: c.watches, Reader: c.reader, Cleanup: c.cleanup,
		Deferral: &c.deferral, Layouts: &c.layouts, Namespace: c.cfg.Namespace, Floor: c.cfg.TokenFloor,
	}
}

func init() {
	hooks.HostOf = func(v any) (session.Host, error) {
		c, _ := v.(*Client)
		if err := c.usable(context.Background()); err != nil {
			return session.Host{}, err
		}
		return c.host(), nil
	}
	hooks.HostFor = func(ctx context.Context, v any) (session.Host, error) {
		switch of := v.(type) {
		case *Client:
			return hooks.HostOf(of)
		case *ownSessions:
			return hooks.HostOf(of.client)
		case sessionsOf:
			if of.client != nil {
				return hooks.HostOf(of.client)
			}
		}
		s, err := v.(Sessions).Session(ctx)
		switch {
		case err != nil:
			return session.Host{}, err
		case s.none():
			return session.Host{}, errNoSession
		}
		return s.client.host(), nil
	}
	hooks.Carry = func(v any, name string, more []string) error {
		if s, ok := v.(sessionsOf); ok {
			return s.carry(name, more)
		}
		return nil
	}
	hooks.SessionOf = func(v any) *session.Session {
		if s, _ := v.(*Session); s != nil {
			return s.engine
		}
		return nil
	}
}
