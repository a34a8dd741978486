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

// train works on one of the devices.
func train(ctx context.Context, device int) error {
	resource, _, ok := fencing.FromContext(ctx)
	fmt.Println("device", device, "is", resource, ok)
	return ctx.Err()
}

// Four devices are shared by any number of programs, each of which works on one of them.
func ExampleSemaphore_Do() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	gpus := lock.NewSemaphore(client, "gpus", 4, lock.Options{})
	err := gpus.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		return train(ctx, h.Slot()) // 0 to 3, and nobody else has it
	})
	fmt.Println(err)
	// Output:
	// device 0 is //pawl/slot/0/gpus true
	// <nil>
}

// At most as many hold as there are slots, and each has another one.
func ExampleNewSemaphore() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t)
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	builds := lock.NewSemaphore(client, "builds", 2, lock.Options{})
	for range 3 {
		p, err := builds.TryAcquire(ctx)
		if err != nil {
			fmt.Println("busy")
			continue
		}
		defer p.Release(ctx)
		fmt.Println("slot", p.Slot())
	}
	// Output:
	// slot 0
	// slot 1
	// busy
}
