package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
)

// blobs keep each set in an object.
type blobs struct {
	blobfence.Fence
	guard bool
}

// Blobs returns a Store of objects, which are written under their tokens if there is a guard.
func Blobs(store blobfence.Store, guard bool) Store {
	return blobs{blobfence.Fence{Store: store, Attempts: 100}, guard}
}

func (blobs) Close() error { return nil }

func (b blobs) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	var body []byte
	var err error
	if b.guard {
		body, err = b.Fence.Read(ctx, resource, t)
	} else {
		body, _, _, err = b.Store.Get(ctx, resource)
	}
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (b blobs) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	body, err := b.Fence.ReadShared(ctx, resource, t)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

// Write without the guard is conditional on the version of the moment, which is no condition.
func (b blobs) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if b.guard {
		return b.Fence.Write(ctx, resource, t, []byte(value))
	}
	for {
		_, at, err := b.Store.Stat(ctx, resource)
		if err != nil && !errors.Is(err, blobfence.ErrNotFound) {
			return err
		}
		meta := blobfence.Meta{Token: t, Nonce: strconv.FormatInt(time.Now().UnixNano(), 36)}
		if err := b.Store.Put(ctx, resource, []byte(value), meta, at); !errors.Is(err, blobfence.ErrChanged) {
			return err
		}
	}
}
