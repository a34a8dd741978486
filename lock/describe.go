package lock

import (
	"log/slog"

	"github.com/pawl-locks/pawl/internal/handle"
)

// String returns the name, the key, the token, and whether the lock is held at the call, for
// people to read. Like Err, it compares the clock and does no I/O.
func (h *Held) String() string { return handle.String("lock", h) }

// LogValue returns what String does, as a group of attributes: name, key, token, held, and the
// cause once it is not held.
func (h *Held) LogValue() slog.Value { return handle.LogValue(h) }
