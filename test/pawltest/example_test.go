package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Two clients of one cluster are like two processes.
func ExampleNew() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()
	ctx := context.Background()

	etcd := pawltest.New(t)
	for i := range 2 {
		session, err := etcd.Client(t, pawl.Config{}).Session(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = lock.New(session, "nightly", lock.Options{}).TryAcquire(ctx)
		fmt.Printf("client %d: busy: %v\n", i, errors.Is(err, lock.ErrBusy))
	}
	// Output:
	// client 0: busy: false
	// client 1: busy: true
}

// A program must notice that it lost its lock.
func ExampleCluster_Delete() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()
	ctx := context.Background()

	etcd := pawltest.New(t)
	session, err := etcd.Client(t, pawl.Config{}).Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := lock.New(session, "nightly", lock.Options{}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	etcd.Delete(held.Key())
	<-held.Done()
	fmt.Println("lost:", errors.Is(held.Err(), lock.ErrLost))
	// Output: lost: true
}

// In a bubble, waiting for a lease to expire takes no time.
func Example_bubble() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			etcd := pawltest.New(t)
			session, err := etcd.Client(t, pawl.Config{}).Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			etcd.Cut()
			time.Sleep(time.Minute)
			if session.Err() == nil {
				t.Error("still valid, a minute after the last renewal")
			}
		})
	}
	_ = test // in a test file, this is func TestX(t *testing.T)
}
