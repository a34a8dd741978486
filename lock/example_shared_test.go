package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Several may read at once, and nobody writes meanwhile.
func ExampleMutex_AcquireShared() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	catalogue := lock.New(client, "catalogue", lock.Options{})
	first, err := catalogue.AcquireShared(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Release(ctx)
	second, err := catalogue.AcquireShared(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release(ctx)
	_, err = catalogue.TryAcquire(ctx) // to write
	fmt.Println(first.Err(), second.Err(), errors.Is(err, lock.ErrBusy))
	// Output: <nil> <nil> true
}

// The function's context carries the shared token, for the storage's guard.
func ExampleMutex_DoShared() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})

	var gate fencing.Gate // the storage's
	err := lock.New(client, "catalogue", lock.Options{}).DoShared(context.Background(), func(ctx context.Context, h *lock.Held) error {
		resource, token, ok := fencing.FromSharedContext(ctx)
		fmt.Println(resource, token == h.Token(), ok)
		return gate.AdmitShared(resource, token)
	})
	fmt.Println(err)
	// Output:
	// catalogue true true
	// <nil>
}
