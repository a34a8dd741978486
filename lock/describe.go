package lock

import (
	"log/slog"

	"github.com/pawl-locks/pawl/internal/handle"
)

// String is the name, the key, the token, and whether it is held at the call, for people. Like
// Err, it compares the clock and does no I/O.
func (h *Held) String() string { return handle.String("lock", h) }

// LogValue is what String says, as a group of attributes: name, key, token, held, and
// the cause once it is not.
func (h *Held) LogValue() slog.Value { return handle.LogValue(h) }
