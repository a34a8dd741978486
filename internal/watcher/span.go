package watcher

import (
	"errors"
	"fmt"
)

// maxSpan bounds the length of a range's two ends together. It keeps a creation well below the
// size that a server accepts in one message, because a longer one would end the stream, and
// below what gRPC buffers for one stream.
const maxSpan = 32 << 10

// maxUnanswered bounds the bytes of several unanswered creations on one stream. It is half of
// what gRPC buffers; 500 creations of usual keys take two or three round trips.
const maxUnanswered = 32 << 10

// perCreation is the size of a creation without its keys.
const perCreation = 24

// everything, as the end of a range, means all keys from its beginning on.
const everything = "\x00"

var (
	errEmptySpan = errors.New("the range is empty: its end is not above its beginning")
	errLongSpan  = fmt.Errorf("the range is longer than %d bytes", maxSpan)
)

// span is the range of watched keys: [key, end), or key alone if end is empty.
type span struct{ key, end string }

func newSpan(key, end string) span {
	if key == "" {
		key = "\x00" // the smallest key; etcd reads it so too
	}
	return span{key: key, end: end}
}

func (s span) check() error {
	switch {
	case len(s.key)+len(s.end) > maxSpan:
		return errLongSpan
	case s.end != "" && s.end != everything && s.end <= s.key:
		return errEmptySpan
	}
	return nil
}

// size is about the size of a creation.
func (s span) size() int { return len(s.key) + len(s.end) + perCreation }

// covers reports whether key is in the span.
func (s span) covers(key []byte) bool {
	switch s.end {
	case "":
		return string(key) == s.key
	case everything:
		return string(key) >= s.key
	}
	return string(key) >= s.key && string(key) < s.end
}
