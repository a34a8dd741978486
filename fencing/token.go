package fencing

import (
	"errors"
	"fmt"
)

// A Token identifies one hold of a lock. Each holder's token is greater than those of all holders before
// it, so storage that remembers the greatest token it has seen can refuse a writer that comes with a
// smaller one.
//
// Tokens are compared only within one resource and one issuer: those of two locks, or of two
// clusters, say nothing about each other. 0 is no token, and no token is negative; both are refused
// everywhere.
type Token int64

// MaxResource is the greatest length of a resource's name, in bytes. The name of every lock fits.
const MaxResource = 1024

// The errors for an unusable resource or token. The errors of all guards match these with
// errors.Is.
var (
	ErrNoToken    = errors.New("not a fencing token")
	ErrNoResource = errors.New("not a resource name")
)

// Check returns what a guard must refuse before it looks anything up: an empty or over-long resource
// (ErrNoResource) and a token that is zero or negative (ErrNoToken). It is for those who write a guard.
// It returns nil if both can be used.
func Check(resource string, t Token) error {
	switch {
	case resource == "":
		return fmt.Errorf("fencing: %w: it is empty", ErrNoResource)
	case len(resource) > MaxResource:
		return fmt.Errorf("fencing: %w: it has %d bytes, at most %d are allowed", ErrNoResource, len(resource), MaxResource)
	case t <= 0:
		return fmt.Errorf("fencing: %w: %d for %q", ErrNoToken, int64(t), resource)
	}
	return nil
}
