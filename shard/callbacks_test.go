package shard_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// After a panic of Notify, or if it ends Run's goroutine, the works learn that their shards are lost.
// The shards go to others when the works have returned.
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

// Notify and work may close the client, and Notify may end Run's context and call Observe.
func TestCallbacksMayEndWhatTheyAreCalledBy(t *testing.T) {
	for where, ends := range map[string]func(c *pawl.Client, cancel func()) error{
		"closed":   func(c *pawl.Client, _ func()) error { _ = c.Close(); return lease.ErrClosed },
		"canceled": func(_ *pawl.Client, cancel func()) error { cancel(); return context.Canceled },
	} {
		for _, k := range []shard.Kind{0, shard.Joined, shard.Acquired, shard.Released} {
			t.Run(where+" "+k.String(), func(t *testing.T) {
				inBubble(t, 3, func(w *fixture) {
					c := w.client(w.f.Dial)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					var want error
					began := time.Now()
					err := shard.Run(ctx, c, "jobs", 3, shard.Options{Notify: func(ev shard.Event) {
						if ev.Kind == k && want == nil {
							for table, err := range shard.Observe(ctx, c, "jobs") {
								assert.NoError(w, err)
								assert.Len(w, table.Members, 1)
								break
							}
							want = ends(c, cancel)
						}
					}}, func(ctx context.Context, h *shard.Held) error {
						switch {
						case h.Shard() != 1:
							<-ctx.Done()
						case k == 0:
							want = ends(c, cancel)
						}
						return nil
					})
					assert.ErrorIs(w, err, want)
					assert.Less(w, time.Since(began), 10*time.Second)
				})
			})
		}
	}
}
