package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A Held can be printed, and logged as a group of attributes.
func ExampleHeld_LogValue() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()
	h, err := lock.New(client, "jobs/42", lock.Options{}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // what differs from run to run
			if a.Key == slog.TimeKey || a.Key == "key" || a.Key == "token" {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("working", "lock", h)
	if err := h.Release(ctx); err != nil {
		fmt.Println(err)
	}
	log.Info("done", "lock", h)
	// Output:
	// level=INFO msg=working lock.name=jobs/42 lock.held=true
	// level=INFO msg=done lock.name=jobs/42 lock.held=false lock.cause=released
}

// Locks of one session are lost together, and no others with them.
func ExampleHeld_Session() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	ctx := context.Background()
	session, err := client.NewSession(ctx, lease.Options{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, errA := lock.New(session, "a", lock.Options{}).Acquire(ctx)
	b, errB := lock.New(client, "b", lock.Options{}).Acquire(ctx)
	if errA != nil || errB != nil {
		fmt.Println(errA, errB)
		return
	}
	fmt.Println(a.Session() == session, b.Session() == session, a.Session().TTL())
	etcd.Revoke(session.ID())
	<-a.Done()
	fmt.Println(a.Err() != nil, b.Err())
	// Output:
	// true false 1m0s
	// true <nil>
}

// A job that must not run twice, and rather not at all: the record is written first.
func ExampleOptions_recordFirst() {
	t := exampletb.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	client := etcd.Client(t, pawl.Config{})
	firing := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

	invoices := lock.New(client, "cron/invoices", lock.Options{RecordFirst: true})
	send := func(context.Context, *lock.Held) error { return fmt.Errorf("the mail server is down") }
	for range 2 {
		ran, err := invoices.Once(context.Background(), firing, send)
		fmt.Println(ran, err)
	}
	// Output:
	// true lock: do "cron/invoices": the mail server is down
	// false <nil>
}
