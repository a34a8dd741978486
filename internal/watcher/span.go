package watcher

import (
	"errors"
	"fmt"
)

// maxSpan bounds a range's two ends together. It keeps a creation well below what a server takes in one
// message, where a longer one would end the stream, and below what gRPC buffers for one stream.
const maxSpan = 32 << 10

// maxUnanswered bounds the bytes of the creations that are unanswered on one stream, where there are several. It is half of
// what gRPC buffers, and 500 creations of usual keys in two or three round trips.
const maxUnanswered = 32 << 10

// perCreation is what a creation takes beside its keys.
const perCreation = 24

// everything, as the end of a range, means all keys from its beginning on.
const everything = "\x00"

var (
	errEmptySpan = errors.New("the range is empty: its end is not above its beginning")
	errLongSpan  = fmt.Errorf("the range is longer than %d bytes", maxSpan)
)

// span is the keys that are watched: [key, end), or key alone where end is empty.
type span struct{ key, end string }

func newSpan(key, end string) span {
	if key == "" {
		key = "\x00" // the smallest key; etcd takes it so too
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

// size is about how long a creation is.
func (s span) size() int { return len(s.key) + len(s.end) + perCreation }

// covers reports whether key is one of them.
func (s span) covers(key []byte) bool {
	switch s.end {
	case "":
		return string(key) == s.key
	case everything:
		return string(key) >= s.key
	}
	return string(key) >= s.key && string(key) < s.end
}
