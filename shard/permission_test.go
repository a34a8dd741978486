package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/shard"
)

// Who may not work on shards is told so once in the log, and in the error that ends the call. No try
// costs a lease.
func TestRunWithoutPermissionGrantsNoLeaseForEachTry(t *testing.T) {
	all := []etcdfake.Access{{Prefix: "//pawl/", Read: true, Write: true}}
	var sessions []etcdfake.Access
	for _, digit := range "0123456789abcdef" {
		sessions = append(sessions, etcdfake.Access{Prefix: "//pawl/" + string(digit), Read: true, Write: true})
	}
	for name, c := range map[string]struct {
		access []etcdfake.Access
		log    string
	}{
		"nothing":                {nil, "shards: to join fails"},
		"not the shards' keys":   {sessions, "shards: to join fails"},
		"the keys, only to read": {[]etcdfake.Access{{Prefix: "//pawl/", Read: true}}, "shards: to join fails"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 4, func(w *fixture) {
				w.f.EnableAuth("root")
				w.f.SetUser("u", "p", c.access...)
				log := &inmemory.Log{}
				client := w.Dial(pawl.Config{Username: "u", Password: "p", Logger: log.Logger()})
				before := w.f.Counts()
				run := func(d time.Duration, work func(context.Context, *shard.Held) error) error {
					ctx, cancel := context.WithTimeout(w.Context(), d)
					defer cancel()
					return shard.Run(ctx, client, "jobs", 4, shard.Options{}, work)
				}
				err := run(time.Hour, func(context.Context, *shard.Held) error { t.Error("it works"); return nil })
				assert.ErrorIs(w, err, context.DeadlineExceeded)
				assert.ErrorContains(w, err, "permission denied")
				assert.LessOrEqual(w, w.f.Counts().Since(before).Received["LeaseGrant"], 1)
				assert.Equal(w, 1, log.Warnings(c.log), "%s", log)

				w.f.SetUser("u", "p", all...)
				works := make(chan struct{}, 4)
				assert.ErrorIs(w, run(time.Minute, func(ctx context.Context, _ *shard.Held) error { works <- struct{}{}; <-ctx.Done(); return nil }), context.DeadlineExceeded)
				assert.Len(w, works, 4)
			})
		})
	}
}

// A worker that gets over a failure says so.
func TestAFailureToJoinIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		log := &inmemory.Log{}
		client := w.Dial(pawl.Config{Logger: log.Logger()})
		w.f.Cut()
		time.AfterFunc(5*time.Minute, w.f.Heal)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
		defer cancel()
		err := shard.Run(ctx, client, "jobs", 4, shard.Options{}, func(ctx context.Context, _ *shard.Held) error { <-ctx.Done(); return nil })
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.NotContains(w, err.Error(), "failed tries")
		assert.Equal(w, 1, log.Warnings("shards: to join fails"), "%s", log)
		assert.Equal(w, 1, log.Warnings("shards: to join works again"))
	})
}
