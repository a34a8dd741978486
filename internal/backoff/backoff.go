// Package backoff computes the wait between two tries of a repeated operation. It doubles from one try
// to the next, up to a bound, and half of it is random, so that clients that failed together do not try
// again together.
//
// A Backoff belongs to one goroutine at a time. It does no I/O and starts no goroutine; only
// Sleep and Wait block.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Backoff is the series of waits of one operation. First and Most bound it; if Most is
// smaller, every wait is First.
type Backoff struct {
	First, Most time.Duration

	next time.Duration // the wait before jitter; 0 means First
}

// Request is the backoff of a request that a caller waits for, and of a stream that is opened again.
func Request() Backoff { return Backoff{First: 50 * time.Millisecond, Most: time.Second} }

// Quick is the backoff of operations on which others depend, such as logins, and all that pawld does
// for its clients. Its waits stay short.
func Quick() Backoff { return Backoff{First: 50 * time.Millisecond, Most: 500 * time.Millisecond} }

// Background is the backoff of work that no caller waits for.
func Background() Backoff { return Backoff{First: 100 * time.Millisecond, Most: 2 * time.Second} }

// Next returns the next wait, at random between half of it and all of it. The one after it is twice as
// long, up to Most.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.First)
	b.next = d + min(d, max(b.Most-d, 0)) // without an overflow
	return Jitter(d)
}

// Reset begins the series again, with First.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits for Next. It returns false as soon as ctx ends.
func (b *Backoff) Sleep(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Jitter returns a random duration between half of d and d.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return max(d, 0)
	}
	return d/2 + rand.N(d/2+1)
}

// Spread returns d give or take a tenth, at random. It is for intervals of what recurs.
func Spread(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// Sleep waits for d. It returns false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	return Wait(d, ctx.Done(), nil) && ctx.Err() == nil
}

// Wait waits for d. It returns false as soon as end or stop is closed.
func Wait(d time.Duration, end, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-end:
	case <-stop:
	}
	return false
}
