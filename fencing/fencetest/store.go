package fencetest

import (
	"context"

	"github.com/pawl-locks/pawl/fencing"
)

// A Store keeps one string for each resource, behind the guard under test. It is used by many
// goroutines at once. A refusal is a *fencing.StaleError, wrapped or not. Any other error may leave
// the outcome open, unless Suite says otherwise.
type Store interface {
	// Read has t admitted and returns the value at that moment, or "" if none was ever written.
	Read(ctx context.Context, resource string, t fencing.Token) (string, error)

	// Write has t admitted and stores value, in one atomic step.
	Write(ctx context.Context, resource string, t fencing.Token, value string) error
}

// A SharedStore is a Store that admits the tokens of shared locks, too. A Store that is not one
// refuses them.
type SharedStore interface {
	Store

	// ReadShared is Read under the token of a shared lock.
	ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error)
}
