package lock_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Two accounts are locked at once, so that transfers in opposite directions cannot wait for
// each other.
func ExampleNewMulti() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})

	transfer := lock.NewMulti(client, lock.Options{},
		lock.Exclusive("account/7"), lock.Exclusive("account/3"), lock.Shared("rates"))
	err := transfer.Do(context.Background(), func(ctx context.Context, h *lock.Held) error {
		fmt.Println(h.Names())
		resource, token, ok := fencing.FromContext(h.ContextFor(ctx, "account/3"))
		fmt.Println(resource, token == h.Token(), ok)
		return nil
	})
	fmt.Println(err)
	// Output:
	// [account/7 account/3 rates]
	// account/3 true true
	// <nil>
}
