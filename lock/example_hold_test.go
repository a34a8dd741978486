package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A job that takes a moment keeps its lock for as long as clocks may differ.
func ExampleOptions_atLeast() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	m := lock.New(client, "cron/report", lock.Options{AtLeast: time.Minute})
	err := m.Do(ctx, func(context.Context, *lock.Held) error { return nil })
	_, again := m.TryAcquire(ctx) // a machine whose clock is late
	fmt.Println(err, errors.Is(again, lock.ErrBusy))
	// Output: <nil> true
}

// A job that hangs keeps the others waiting no longer than MaxHold.
func ExampleOptions_maxHold() {
	t := exampletb.Begin()
	defer t.End()
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
