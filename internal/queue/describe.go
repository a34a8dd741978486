package queue

import (
	"fmt"
	"log/slog"

	"github.com/pawl-locks/pawl/internal/keys"
)

// Describe says what it holds, and whether it still does at the call. kind is what its handle is
// called.
func (a *Acquisition) Describe(kind string) string {
	state := "held"
	if err := a.Err(); err != nil {
		state = err.Error()
	}
	if a.isSet() {
		return fmt.Sprintf("%ss %s (keys %q, token %d): %s", kind, keys.Quote(a.Names()...), a.owned(), a.Token(), state)
	}
	if slot := a.Slot(); slot >= 0 {
		kind = fmt.Sprintf("slot %d of semaphore", slot)
	}
	return fmt.Sprintf("%s %q (key %q, token %d): %s", kind, a.Name(), a.Key(), a.Token(), state)
}

// LogValue returns what Describe says, as a group: slot, name and key, or names and keys, then
// token, held, and the cause once it is not held.
func (a *Acquisition) LogValue() slog.Value {
	var attrs []slog.Attr
	if a.isSet() {
		attrs = append(attrs, slog.Any("names", a.Names()), slog.Any("keys", a.AllKeys()))
	} else {
		if slot := a.Slot(); slot >= 0 {
			attrs = append(attrs, slog.Int("slot", slot))
		}
		attrs = append(attrs, slog.String("name", a.Name()), slog.String("key", a.Key()))
	}
	err := a.Err()
	attrs = append(attrs, slog.Int64("token", int64(a.Token())), slog.Bool("held", err == nil))
	if err != nil {
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	return slog.GroupValue(attrs...)
}
