// Package handle describes handles, for people and for logs: one form for locks and terms.
package handle

import (
	"fmt"
	"log/slog"

	"github.com/pawl-locks/pawl/fencing"
)

// A Handle is a lock or a term. Its methods are safe on a nil handle.
type Handle interface {
	Name() string
	Key() string
	Token() fencing.Token
	Err() error
}

// String names what h holds, and says whether it holds it at the call.
func String(kind string, h Handle) string {
	state := "held"
	if err := h.Err(); err != nil {
		state = err.Error()
	}
	return fmt.Sprintf("%s %q (key %q, token %d): %s", kind, h.Name(), h.Key(), h.Token(), state)
}

// LogValue is h as a group: name, key, token, held, and the cause once it is not held.
func LogValue(h Handle) slog.Value {
	attrs := []slog.Attr{
		slog.String("name", h.Name()), slog.String("key", h.Key()), slog.Int64("token", int64(h.Token())),
	}
	err := h.Err()
	attrs = append(attrs, slog.Bool("held", err == nil))
	if err != nil {
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	return slog.GroupValue(attrs...)
}
