package elect

import (
	"log/slog"

	"github.com/pawl-locks/pawl/internal/handle"
)

// String returns the name, the key, the token, and whether the term lasts at the call, for
// people to read. Like Err, it compares the clock and does no I/O.
func (t *Term) String() string { return handle.String("term", t) }

// LogValue returns what String does, as a group of attributes: name, key, token, held, and the
// cause once the term has ended.
func (t *Term) LogValue() slog.Value { return handle.LogValue(t) }
