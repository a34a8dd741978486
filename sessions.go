package pawl

import (
	"context"
	"fmt"
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
