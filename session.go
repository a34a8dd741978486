package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
)

// A Session is a lease that is kept alive. Any number of locks and goroutines can share one. Its locks,
// terms and keys end with it. Its methods are safe for concurrent use.
type Session struct {
	engine *session.Session
	client *Client
}

// errNoSession is the error of a nil or zero Session.
var errNoSession = errors.New("pawl: nil session, or one not made by a Client")

// noSession is the context of a nil or zero Session.
var noSession = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNoSession)
	return ctx
}()

// none reports whether s is nil or zero. Such a Session has ended, with errNoSession.
func (s *Session) none() bool { return s == nil || s.engine == nil }

// ID is the lease ID.
func (s *Session) ID() int64 {
	if s.none() {
		return 0
	}
	return s.engine.ID()
}

// TTL is the TTL that the server granted, which may be more than was requested, less what
// lease.Options.LockDelay adds to it.
func (s *Session) TTL() time.Duration {
	if s.none() {
		return 0
	}
	return s.engine.TTL()
}

// Deadline is when the session expires unless it is renewed, by this process's clock, or the zero Time
// once it has ended. It is computed at each call, for comparison with time.Now. A stored Deadline is
// wrong after a suspend.
func (s *Session) Deadline() time.Time {
	if s.none() {
		return time.Time{}
	}
	return s.engine.Deadline()
}

// Err returns nil while the session is valid, and afterwards always the same reason. It matches
// lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or ErrClusterChanged, or, for a session of
// elect.Run, elect.ErrOverrun. Err compares the clock at each call, does no I/O and does not block.
func (s *Session) Err() error {
	if s.none() {
		return errNoSession
	}
	return s.engine.Err()
}

// Done is closed when the session has ended. It may be closed a little after Err first returns an
// error. Err decides.
func (s *Session) Done() <-chan struct{} {
	if s.none() {
		return noSession.Done()
	}
	return s.engine.Done()
}

// Context is cancelled when the session has ended, with the error of Err as its cause.
func (s *Session) Context() context.Context {
	if s.none() {
		return noSession
	}
	return s.engine.Context()
}

// Close ends the session, with all its locks, terms and keys. It stops renewing and revokes the lease,
// and returns nil once the lease is gone. It waits until ctx ends, and for 12 s at most. If ctx is
// already done, it still sends the revocation. If its error matches kv.ErrUnknown, the revocation was
// not confirmed in time and continues in the background (calling Close again waits for it), or the
// lease was left to expire. With lease.Options.LockDelay, the lease of a session that still holds
// something is revoked that much later. Close is idempotent, and does nothing after Detach.
func (s *Session) Close(ctx context.Context) error {
	switch {
	case s.none():
		return errNoSession
	case ctx == nil:
		return errors.New("pawl: close session: nil context")
	}
	err := s.engine.Close(ctx)
	if err == nil {
		s.client.awaitRemoval(ctx, s.engine)
	}
	return err
}

// Detach ends the session in this process, with all its locks and terms and with lease.ErrClosed,
// before it returns. It leaves the lease and its keys to another process, which passes the Handle as
// lease.Options.Resume before the lease expires, and resumes its locks and terms by key and token. A
// Handle works once. Detach returns the zero Handle if the session had already ended.
func (s *Session) Detach() lease.Handle {
	if s.none() {
		return lease.Handle{}
	}
	h := s.engine.Detach()
	if h != (lease.Handle{}) {
		s.client.awaitRemoval(context.Background(), s.engine) // before anybody has the Handle
	}
	return h
}

// Sessions provides the session for each call of a lock or an election. A *Client provides its session,
// and grants a new one after that has ended, so that a Mutex or an Election made with a Client outlives
// any session. A *Session provides itself. Each acquisition keeps the session with which it began, and
// is lost with it.
type Sessions interface {
	// Session returns the current session. It may grant one. ctx bounds only the call. Either the
	// Session or the error is nil.
	Session(ctx context.Context) (*Session, error)
}

var _ = []Sessions{(*Client)(nil), (*Session)(nil)}

// Session returns s, even after it has ended. Every call that uses it then reports the cause. It does
// no I/O.
func (s *Session) Session(ctx context.Context) (*Session, error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("pawl: session: %w", errNilContext)
	case s.none():
		return nil, errNoSession
	}
	return s, nil
}

// ownSessions are the sessions of one caller, which nobody else uses.
type ownSessions struct {
	client  *Client
	session *Session // the last one; nil if there is none
}

// Session returns the last session while it is valid, and otherwise a new one.
func (o *ownSessions) Session(ctx context.Context) (*Session, error) {
	if o.session != nil && o.session.Err() == nil {
		return o.session, nil
	}
	s, err := o.client.NewSession(ctx, o.client.cfg.Session)
	if err != nil {
		return nil, err
	}
	o.session = s
	return s, nil
}

// end closes the session in the background, after a time.
func (o *ownSessions) end(after time.Duration) {
	s := o.session
	if o.session = nil; s == nil {
		return
	}
	if after <= 0 {
		s.engine.CloseInBackground()
		return
	}
	time.AfterFunc(after, s.engine.CloseInBackground)
}

func init() {
	hooks.Own = func(v any) (own any, end func(time.Duration), ttl time.Duration) {
		c, ok := v.(*Client)
		if of, is := v.(sessionsOf); is {
			c, ok = of.client, of.client != nil
		}
		if !ok || c == nil {
			return nil, nil, 0
		}
		o := &ownSessions{client: c}
		return o, o.end, c.cfg.Session.WithDefaults().TTL
	}
}
