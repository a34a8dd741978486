package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A job that hangs keeps the others waiting no longer than MaxHold.
func ExampleOptions_maxHold() {
	t := begin()
	defer t.end()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})

	m := lock.New(client, "jobs/42", lock.Options{MaxHold: 50 * time.Millisecond})
	err := m.Do(context.Background(), func(ctx context.Context, h *lock.Held) error {
		<-ctx.Done() // it hangs, but for this
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, lock.ErrLost), errors.Is(err, lock.ErrMaxHold))
	// Output: true true
}
