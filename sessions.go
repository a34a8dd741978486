package pawl

import (
	"context"
	"fmt"
)

// Sessions gives the session that one call of a lock or an election uses. A *Client
// gives its own, which it grants again after it ended, so that a Mutex or an Election
// made with a Client outlives any session; a *Session gives itself. Each acquisition
// keeps the session that it began with, and is lost with it.
type Sessions interface {
	// Session returns the session of now. It may grant one, within ctx, which
	// bounds the call and nothing after it. Either the Session or the error is nil.
	Session(ctx context.Context) (*Session, error)
}

var _ = []Sessions{(*Client)(nil), (*Session)(nil)}

// Session is s itself, also after its end, when every call that uses it reports the
// cause. It does no I/O.
func (s *Session) Session(ctx context.Context) (*Session, error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("pawl: session: %w", errNilContext)
	case s.none():
		return nil, errNoSession
	}
	return s, nil
}
