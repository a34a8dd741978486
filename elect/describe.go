package elect

import "log/slog"

// String returns the name, the key, the token, and whether the term lasts at the call, for
// people to read. Like Err, it compares the clock and does no I/O.
func (t *Term) String() string { return t.acquisition().Describe("term") }

// LogValue returns what String does, as a group of attributes: name, key, token, held, and the
// cause once the term has ended.
func (t *Term) LogValue() slog.Value { return t.acquisition().LogValue() }
