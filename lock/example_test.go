package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// With a client, a Mutex outlives the sessions that its locks are held on.
func ExampleNew() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()

	m := lock.New(client, "jobs/42", lock.Options{})
	first, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	etcd.Revoke(first.Session().ID()) // the server ends the session …
	<-first.Done()
	second, err := m.Acquire(ctx) // … and the next call has another
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release(ctx)
	fmt.Println(first.Err() != nil, second.Err(), second.Token() > first.Token())
	// Output: true <nil> true
}

// Who holds it, and who waits?
func ExampleMutex_Queue() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{Session: lease.Options{Owner: "ann"}})
	ctx := context.Background()

	m := lock.New(client, "jobs/42", lock.Options{})
	h, err := m.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Release(ctx)
	queue, err := m.Queue(ctx)
	for i, who := range queue {
		fmt.Println(i, who.Owner, who.Mode, who.Token == h.Token())
	}
	fmt.Println(err)
	// Output:
	// 0 ann exclusive true
	// <nil>
}

// A cron job on ten machines runs once a firing.
func ExampleMutex_Once() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	firing := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, machine := range []string{"a", "b"} {
		client := etcd.Client(t, pawl.Config{})
		ran, err := lock.New(client, "cron/cleanup", lock.Options{}).Once(context.Background(), firing,
			func(context.Context, *lock.Held) error {
				fmt.Println("cleaning up")
				return nil
			})
		fmt.Println(machine, ran, err)
	}
	// Output:
	// cleaning up
	// a true <nil>
	// b false <nil>
}
