package blobfence

import (
	"context"
	"errors"

	"github.com/pawl-locks/pawl/fencing"
)

// Meta is what the store keeps with an object's body, and replaces in one step with it.
type Meta struct {
	Token  fencing.Token // the highest admitted, of either mode; 0 if this package did not write the object
	Ahead  fencing.Token // how far Token, a shared one, is ahead of the highest exclusive one; else 0
	Nonce  string        // names the write that made this version; letters and digits
	Absent bool          // a placeholder, which Read treats as no object
}

// exclusive returns the highest exclusive token. A Store that does not keep Ahead makes it too
// high, which refuses readers that hold, and admits nothing stale.
func (m Meta) exclusive() fencing.Token { return m.Token - m.Ahead }

// A Version names a state of an object: an S3 ETag, a GCS generation. Two successful Puts of an
// object never give it the same one, not even with equal bodies. "" is the version of an object
// that is not there.
type Version string

// A Store has conditional writes. Its methods are safe for concurrent use. Names are any strings of
// up to fencing.MaxResource bytes, and are kept apart byte for byte.
type Store interface {
	// Stat returns metadata and version as they were at one instant during the call. If there is no
	// object, the error matches ErrNotFound.
	Stat(ctx context.Context, name string) (Meta, Version, error)

	// Get is Stat, and the body of the same instant.
	Get(ctx context.Context, name string) ([]byte, Meta, Version, error)

	// Put writes body and m in one step if the object's version is at. After it returns nil, the write
	// is durable. An error matches ErrChanged if nothing was written and never will be, because the
	// version is another. It matches ErrNotApplied if the same is so for another reason and trying
	// again cannot help. After any other error the object may be written, at most once, and still only
	// over the version at. Put sends its request once, because the error of a first copy must not be
	// covered up by a second.
	Put(ctx context.Context, name string, body []byte, m Meta, at Version) error
}

// Errors of stores.
var (
	ErrNotFound   = errors.New("no such object")
	ErrChanged    = errors.New("the object has another version")
	ErrNotApplied = errors.New("not written")
)
