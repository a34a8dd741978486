package shard_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// After a panic of Notify, or where it ends Run's goroutine, the works learn that their shards are
// lost, which go elsewhere when those have returned.
func TestAfterAPanicOfNotifyNothingStays(t *testing.T) {
	for _, k := range []shard.Kind{shard.Joined, shard.Acquired, shard.Moving, shard.Released, shard.Lost, shard.Retrying, shard.Failed} {
		for _, exits := range []bool{false, true} {
			t.Run(k.String(), func(t *testing.T) {
				inBubble(t, 4, func(w *fixture) {
					told := false
					opts := shard.Options{Session: lease.Options{TTL: ttl}, Notify: func(ev shard.Event) {
						switch {
						case ev.Kind != k:
						case told:
							assert.Fail(w, "it is called again")
						case exits:
							told = true
							runtime.Goexit()
						default:
							told = true
							panic("no")
						}
					}}
					work := func(ctx context.Context, h *shard.Held) error {
						if k == shard.Failed && h.Shard() == 2 {
							return nil
						}
						<-ctx.Done()
						if k != shard.Moving && k != shard.Released {
							assert.ErrorIs(w, context.Cause(ctx), lock.ErrLost)
						}
						time.Sleep(time.Second)
						return nil
					}
					c, done := w.client(w.f.Dial), make(chan any)
					go func() { // ends with Run
						defer func() { done <- recover() }()
						_ = shard.Run(context.Background(), c, "jobs", 4, opts, work)
					}()
					time.AfterFunc(4*time.Second, func() {
						if k == shard.Lost || k == shard.Retrying {
							w.f.Revoke(w.f.Leases()[0].ID)
						}
					})
					time.AfterFunc(5*time.Second, func() { w.start(shard.Options{}) })
					got := <-done
					assert.Equal(w, exits, got == nil)
					w.pass(2 * ttl)
					w.shared()
					assert.Len(w, w.f.Leases(), 1)
				})
			})
		}
	}
}
