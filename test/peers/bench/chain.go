//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/txn"
)

// chain lets n waiters queue behind a holder, each in a separate session, and then lets the queue
// advance by itself. An operation is one acquisition with all that belongs to it: enqueuing,
// waiting, releasing. P50 and P99 are of release to acquire, from the call of a Release to the
// return of the next Acquire. Wall is only the drain.
func chain(ctx context.Context, w *worker, n int) (f figures, err error) {
	sessions := n + 1
	if w.Kit == oneSession {
		sessions = 1
	}
	if err := w.grow(ctx, sessions); err != nil {
		return f, err
	}
	conn, err := connect(w.Addr)
	if err != nil {
		return f, err
	}
	w.raw = pb.NewKVClient(conn)
	first, err := w.sessions[0].locker(w.Tag).acquire(ctx)
	if err != nil {
		return f, err
	}
	limit := n
	if w.Scenario.Limit > 0 {
		limit = w.Scenario.Limit
	}
	l := &line{hold: w.Scenario.Hold, limit: limit, done: make(chan struct{})}
	lockers := make([]locker, n)
	for i := range lockers {
		lockers[i] = w.sessions[(i+1)%sessions].locker(w.Tag)
	}
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	m := &meter{addr: w.Addr}
	if err := m.start(); err != nil {
		return f, err
	}
	polls, err := w.queue(ctx, l, lockers)
	if err != nil {
		return f, err
	}
	time.Sleep(200 * time.Millisecond) // until the last watches are created
	if err := m.stop(); err != nil {
		return f, err
	}
	m.sum.calls["Range"] -= float64(polls)
	// If only a part of the queue takes its turn, each of them also counts only its share of
	// the enqueuing.
	m.sum.scale(float64(limit) / float64(n))
	if err := w.occupied(&f, before, n); err != nil {
		return f, err
	}
	heap, goroutines, serverHeap := f.Heap, f.Goroutines-1, f.ServerHeap // the caller's goroutine is not counted
	if err := m.start(); err != nil {
		return f, err
	}
	if err := l.drain(ctx, first); err != nil {
		return f, err
	}
	if err := m.stop(); err != nil {
		return f, err
	}
	f = m.figures(limit)
	f.Heap, f.Goroutines, f.ServerHeap = heap, goroutines, serverHeap
	f.Wall = l.took().Seconds()
	f.P50, f.P99 = quantiles(l.handoffs())
	return f, nil
}

// arrivals is how many waiters enqueue at a time. The server walks the queue for each, so it could
// not answer thousands at once in time.
const arrivals = 200

// queue makes all lockers enqueue, and returns how often it polled.
func (w *worker) queue(ctx context.Context, l *line, lockers []locker) (polls int, err error) {
	for i, locker := range lockers {
		go l.pass(ctx, locker) // ends with its turn, or with the process
		if (i+1)%arrivals == 0 || i+1 == len(lockers) {
			n, err := w.enqueued(ctx, l, i+2) // the holder's key too
			polls += n
			if err != nil {
				return polls, err
			}
		}
	}
	return polls, nil
}

// enqueued waits until n keys are in the queue, and returns how often it polled.
func (w *worker) enqueued(ctx context.Context, l *line, n int) (polls int, err error) {
	prefix := w.Tag + "/"
	for {
		select {
		case <-l.done:
			return polls, fmt.Errorf("while the queue was forming: %w", l.err)
		default:
		}
		polls++
		r, err := w.raw.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: txn.PrefixEnd(prefix), CountOnly: true})
		if err != nil {
			return polls, err
		}
		if r.Count == int64(n) {
			return polls, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// line is the order in which a chain advanced.
type line struct {
	hold  time.Duration
	limit int
	done  chan struct{} // the last one has released, or failed

	mu       sync.Mutex
	released []time.Time // when each called Release, the first holder first
	acquired []time.Time
	err      error
	end      time.Time
}

// pass waits for its turn, and passes the lock on, unless the limit is reached.
func (l *line) pass(ctx context.Context, locker locker) {
	h, err := locker.acquire(ctx)
	now := time.Now()
	l.mu.Lock()
	l.acquired = append(l.acquired, now)
	if len(l.acquired) != len(l.released) {
		err = errors.Join(err, fmt.Errorf("acquisition %d after %d releases", len(l.acquired), len(l.released)))
	}
	nth := len(l.acquired)
	l.mu.Unlock()
	if err != nil {
		l.over(err)
		return
	}
	if nth > l.limit {
		return // keeps the lock
	}
	if l.hold > 0 {
		time.Sleep(l.hold)
	}
	err = l.release(ctx, h)
	if nth == l.limit || err != nil {
		l.over(err)
	}
}

func (l *line) release(ctx context.Context, h held) error {
	l.mu.Lock()
	l.released = append(l.released, time.Now())
	l.mu.Unlock()
	return h.release(ctx)
}

func (l *line) over(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end.IsZero() {
		l.end, l.err = time.Now(), err
		close(l.done)
	}
}

func (l *line) drain(ctx context.Context, first held) error {
	if err := l.release(ctx, first); err != nil {
		return err
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) took() time.Duration { return l.end.Sub(l.released[0]) }

func (l *line) handoffs() (all []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range min(len(l.acquired), l.limit) {
		all = append(all, l.acquired[i].Sub(l.released[i]))
	}
	return all
}
