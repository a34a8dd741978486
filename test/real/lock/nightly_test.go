package lock_test

import (
	"context"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// On a real server, which is ready in a fraction of a second.
func TestNightlyOnARealServer(t *testing.T) {
	server := etcdtest.Start(t)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = lock.New(client, "nightly", lock.Options{}).Do(t.Context(), func(ctx context.Context, h *lock.Held) error {
		return h.Confirm(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}
