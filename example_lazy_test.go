package pawl_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A program that starts before its cluster: the first call reaches it.
func ExampleConfig_lazy() {
	t := exampletb.Begin()
	defer t.End()
	ctx := context.Background()

	etcd := pawltest.New(t)
	etcd.Cut()                                        // it is not there yet
	client := etcd.Client(t, pawl.Config{Lazy: true}) // in a program, pawl.Dial
	fmt.Println("the program has started")

	etcd.Heal()
	session, err := client.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lock.New(session, "jobs/nightly", lock.Options{}).Do(ctx, func(ctx context.Context, h *lock.Held) error {
		fmt.Println(h.Name(), "is held")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// the program has started
	// jobs/nightly is held
}
