package lease

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/detached"
)

// A Handle is what another process needs to take over a detached session. It has the lease, its
// cluster, its session key as it was last written, how many entries in queues it has had, those that
// the next process has to remove, and how long locks with Options.AtLeast have to stay taken. It is
// comparable, contains no secret, and works once. The zero Handle means no session.
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
