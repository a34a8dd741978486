package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// One process of two is cut off from etcd. In a bubble this takes no time: see the
// example of the package.
func ExampleCluster_CutClient() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()
	ctx := context.Background()

	etcd := pawltest.New(t)
	one := etcd.Client(t, pawl.Config{Session: lease.Options{TTL: 3 * time.Second}})
	other := etcd.Client(t, pawl.Config{})
	held, err := lock.New(one, "nightly", lock.Options{}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	etcd.CutClient(one)
	next, err := lock.New(other, "nightly", lock.Options{}).Acquire(ctx) // when the lease has expired
	if err != nil {
		fmt.Println(err)
		return
	}
	defer next.Release(ctx)
	fmt.Println("the first knew it before:", errors.Is(held.Err(), lease.ErrExpired))
	etcd.HealClient(one)
	fmt.Println("and it stays lost:", errors.Is(held.Release(ctx), lock.ErrLost))
	// Output:
	// the first knew it before: true
	// and it stays lost: true
}
