package elect

import (
	"log/slog"

	"github.com/pawl-locks/pawl/internal/handle"
)

// String is the name, the key, the token, and whether the term lasts at the call, for people. Like
// Err, it compares the clock and does no I/O.
func (t *Term) String() string { return handle.String("term", t) }

// LogValue is what String says, as a group of attributes: name, key, token, held, and
// the cause once it is not.
func (t *Term) LogValue() slog.Value { return handle.LogValue(t) }
