package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/hooks"
)

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
