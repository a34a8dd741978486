package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
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

// In a bubble an hour takes no time.
func TestNightlyStopsWhenItIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		client := etcd.Client(t, pawl.Config{})
		steps := 0
		began := time.Now()
		err := nightly(t.Context(), client, func() bool {
			if steps++; steps == 60 {
				etcd.CutClient(client)
			}
			return false
		})
		if err == nil || steps != 60 || time.Since(began) > time.Hour {
			t.Errorf("%d steps in %v, and then: %v", steps, time.Since(began), err)
		}
	})
}
