package shard_test

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

// A fleet is many workers for hours, whose work does nothing. Its TTL is the default one.
const fleetTTL = 15 * time.Second

var errWork = errors.New("no space left on device")

// waits is a work that waits until its context ends.
func waits(ctx context.Context, _ *shard.Held) error {
	<-ctx.Done()
	return nil
}

// failsAfter is a work that fails after d.
func failsAfter(d time.Duration) func(ctx context.Context, h *shard.Held) error {
	return func(ctx context.Context, _ *shard.Held) error {
		select {
		case <-time.After(d):
			return errWork
		case <-ctx.Done():
			return nil
		}
	}
}

// add starts a worker whose work is job.
func (w *fixture) add(opts shard.Options, job func(ctx context.Context, h *shard.Held) error) *worker {
	w.Helper()
	if opts.Session.TTL == 0 {
		opts.Session = lease.Options{TTL: fleetTTL}
	}
	return w.start(opts, func(x *worker) { x.job = job })
}

// count is how many events of a kind the workers had.
func count(k shard.Kind, all ...*worker) (n int) {
	for _, x := range all {
		n += len(x.kinds(k))
	}
	return n
}

// idle lets d pass, and returns which part of the time of the shards nobody worked on them.
func (w *fixture) idle(d time.Duration, shards ...int) (part float64) {
	nobody, all := 0, 0
	for end := time.Now().Add(d); time.Now().Before(end); w.pass(time.Second) {
		has := map[int]bool{}
		for _, x := range w.all {
			if !x.gone {
				for _, i := range x.owned() {
					has[i] = true
				}
			}
		}
		for _, i := range shards {
			all++
			if !has[i] {
				nobody++
			}
		}
	}
	return float64(nobody) / float64(all)
}
