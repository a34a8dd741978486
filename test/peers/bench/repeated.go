//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// repeat lets n workers do op for a while, and measures that. The first tenth is a warm-up.
func (w *worker) repeat(ctx context.Context, n int, op func(ctx context.Context, worker int) error) (figures, error) {
	run := func(d time.Duration) (all []time.Duration, err error) {
		took := make([][]time.Duration, n)
		end := time.Now().Add(d)
		err = each(n, n, func(i int) error {
			for start := time.Now(); start.Before(end); {
				if err := op(ctx, i); err != nil {
					return err
				}
				now := time.Now()
				took[i] = append(took[i], now.Sub(start))
				start = now
			}
			return nil
		})
		return slices.Concat(took...), err
	}
	if _, err := run(max(w.Scenario.Span/10, 100*time.Millisecond)); err != nil {
		return figures{}, err
	}
	var took []time.Duration
	f, err := w.metered(func() (_ int, err error) {
		took, err = run(w.Scenario.Span)
		return len(took), err
	})
	f.P50, f.P99 = quantiles(took)
	return f, err
}

// uncontended is workers, each of which acquires and releases a separate lock, in one session.
func uncontended(ctx context.Context, w *worker, n int) (figures, error) {
	if err := w.grow(ctx, 1); err != nil {
		return figures{}, err
	}
	lockers := make([]locker, n)
	for i := range lockers {
		lockers[i] = w.sessions[0].locker(fmt.Sprintf("%s-%d", w.Tag, i))
	}
	return w.repeat(ctx, n, func(ctx context.Context, i int) error {
		h, err := lockers[i].acquire(ctx)
		if err != nil {
			return err
		}
		return h.release(ctx)
	})
}

// tryFree tries a lock that nobody holds, and releases it.
func tryFree(ctx context.Context, w *worker, n int) (figures, error) {
	if err := w.grow(ctx, 1); err != nil {
		return figures{}, err
	}
	l := w.sessions[0].locker(w.Tag)
	return w.repeat(ctx, n, func(ctx context.Context, _ int) error {
		h, err := l.try(ctx)
		if err != nil || h == nil {
			return errors.Join(err, errors.New("a free lock was not taken"))
		}
		return h.release(ctx)
	})
}

// tryHeld tries a lock that another session holds.
func tryHeld(ctx context.Context, w *worker, n int) (figures, error) {
	if err := w.grow(ctx, 2); err != nil {
		return figures{}, err
	}
	if _, err := w.sessions[1].locker(w.Tag).acquire(ctx); err != nil {
		return figures{}, err
	}
	l := w.sessions[0].locker(w.Tag)
	return w.repeat(ctx, n, func(ctx context.Context, _ int) error {
		h, err := l.try(ctx)
		if h != nil {
			err = errors.Join(err, errors.New("a held lock was taken"))
		}
		return err
	})
}

// newSessions makes n sessions, one after another.
func newSessions(ctx context.Context, w *worker, n int) (figures, error) {
	if err := w.grow(ctx, 1); err != nil {
		return figures{}, err
	}
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return figures{}, err
	}
	took := make([]time.Duration, 0, n)
	f, err := w.metered(func() (int, error) {
		for range n {
			start := time.Now()
			if err := w.grow(ctx, len(w.sessions)+1); err != nil {
				return 0, err
			}
			took = append(took, time.Since(start))
		}
		return n, nil
	})
	if err != nil {
		return f, err
	}
	f.P50, f.P99 = quantiles(took)
	return f, w.occupied(&f, before, n)
}

// occupied records the memory of n more of something.
func (w *worker) occupied(f *figures, before footprint, n int) error {
	now, err := measureFootprint(w.Addr)
	if err != nil {
		return err
	}
	f.Heap = (now.heap - before.heap) / float64(n)
	f.ServerHeap = (now.serverHeap - before.serverHeap) / float64(n)
	f.Goroutines = float64(now.goroutines-before.goroutines) / float64(n)
	return nil
}
