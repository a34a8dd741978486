package lease

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/detached"
)

// A Handle is what another process needs to take over a detached session. It has the lease, its
// cluster, TTL and lock-delay, the session key's revisions, the number of the next entry in a queue,
// the keys that the next process has to remove, which of them were held and lost, how long some have
// to stay, and the nonce of the takeover if that was decided before. It is comparable, contains no
// secret, and works once. The zero Handle means no session.
type Handle struct {
	text string // as package detached writes it
}

// MarshalText writes h as one word of printable ASCII, fit for an environment
// variable or a file. The zero Handle is the empty text.
func (h Handle) MarshalText() ([]byte, error) { return []byte(h.text), nil }

// UnmarshalText reads what MarshalText wrote; h is unchanged on an error.
func (h *Handle) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Handle{}
		return nil
	}
	s, err := detached.Parse(string(text))
	if err != nil {
		return fmt.Errorf("lease: handle: %w", err)
	}
	*h = Handle{s.Text()}
	return nil
}

// String names the lease, for logs.
func (h Handle) String() string {
	s, err := detached.Parse(h.text)
	if err != nil { // the zero Handle; every other one was parsed, or made by Detach
		return "no session"
	}
	return fmt.Sprintf("session of lease %x", s.Lease)
}
