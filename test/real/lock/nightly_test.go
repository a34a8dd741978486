package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// nightly is what is to be tested: it steps until it is done, or its lock is lost.
func nightly(ctx context.Context, client *pawl.Client, step func() (done bool)) error {
	return lock.New(client, "nightly", lock.Options{}).Do(ctx, func(ctx context.Context, h *lock.Held) error {
		for !step() {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
			}
		}
		return nil
	})
}

// On a real server, which is ready in a fraction of a second.
func TestNightlyOnARealServer(t *testing.T) {
	server := etcdtest.Start(t)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := nightly(t.Context(), client, func() bool { return true }); err != nil {
		t.Error(err)
	}
}
