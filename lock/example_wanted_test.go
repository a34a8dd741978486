package lock_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// share runs jobs under one lock. It acquires the lock for the first job, keeps it for those that
// follow, and releases it when somebody else waits for it.
func share(ctx context.Context, m *lock.Mutex, jobs <-chan func(ctx context.Context, h *lock.Held) error) error {
	for job := range jobs {
		err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
			for {
				if err := job(ctx, h); err != nil {
					return err
				}
				select {
				case <-h.Wanted():
					return nil // Do releases the lock, and the next job waits for it behind the other
				case <-ctx.Done():
					return context.Cause(ctx)
				case next, ok := <-jobs:
					if !ok {
						return nil
					}
					job = next
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ExampleHeld_Wanted() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	here, there := etcd.Client(t, pawl.Config{}), etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	jobs := make(chan func(context.Context, *lock.Held) error)
	ended := make(chan error)
	go func() { ended <- share(ctx, lock.New(here, "index", lock.Options{}), jobs) }()
	var first *lock.Held
	jobs <- func(_ context.Context, h *lock.Held) error { first = h; return nil }
	jobs <- func(_ context.Context, h *lock.Held) error {
		fmt.Println("the second job has the same hold:", h == first)
		return nil
	}
	other, err := lock.New(there, "index", lock.Options{}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("it was given to the other:", other.Token() > first.Token())
	_ = other.Release(ctx)
	close(jobs)
	fmt.Println(<-ended)
	// Output:
	// the second job has the same hold: true
	// it was given to the other: true
	// <nil>
}
