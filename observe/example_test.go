package observe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// alarm is what a program does for itself with the events.
func alarm(_ context.Context, ev observe.Event) {
	switch ev := ev.(type) {
	case observe.LockAcquired:
		fmt.Println("acquired", ev.Name, ev.How)
	case observe.LockReleased:
		fmt.Println("released", ev.Name)
	case observe.LockLost:
		fmt.Println("lost", ev.Name, "deleted:", errors.Is(ev.Err, lock.ErrKeyDeleted))
	}
}

func Example() {
	ctx := context.Background()
	t := exampletb.Begin() // in a test, its own *testing.T
	defer t.End()
	cluster := pawltest.New(t)
	client := cluster.Client(t, pawl.Config{Observer: observe.Func(alarm)})
	session, err := client.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs := lock.New(session, "jobs", lock.Options{})
	_ = jobs.Do(ctx, func(context.Context, *lock.Held) error { return nil })
	held, _ := jobs.Acquire(ctx)
	cluster.Delete(held.Key()) // an operator
	<-held.Done()
	_ = client.Close() // returns when every event was delivered
	// Output:
	// acquired jobs free
	// released jobs
	// acquired jobs free
	// lost jobs deleted: true
}
