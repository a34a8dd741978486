//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// manyHeld holds n locks in one session, in addition to none, or to those that it
// holds already, and says what each of all takes.
func manyHeld(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	have := len(w.held)
	if have == 0 { // what the first lock of a session brings about is not each lock's
		if _, err := w.sessions[0].locker(w.Tag + "-first").acquire(ctx); err != nil {
			return f, err
		}
	}
	more := make([]locker, n-have)
	for i := range more {
		more[i] = w.sessions[0].locker(fmt.Sprintf("%s-%d", w.Tag, have+i))
	}
	w.held = append(make([]held, 0, n), w.held...)[:n]
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	f, err = w.metered(func() (int, error) {
		return len(more), each(64, len(more), func(i int) (err error) {
			w.held[have+i], err = more[i].acquire(ctx)
			return err
		})
	})
	if err != nil {
		return f, err
	}
	time.Sleep(1500 * time.Millisecond) // all are watched now, by those who watch
	return f, w.occupied(&f, before, n-have)
}

// renewals is what keeping n sessions alive costs for a TTL. An operation is one
// session kept for one TTL.
func renewals(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	have := len(w.sessions)
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	if err := w.grow(ctx, n); err != nil {
		return f, err
	}
	f, err = w.metered(func() (int, error) {
		time.Sleep(w.Scenario.Span)
		return max(1, int(float64(n)*w.Scenario.Span.Seconds()/w.Scenario.TTL.Seconds())), nil
	})
	if err != nil {
		return f, err
	}
	return f, w.occupied(&f, before, n-have)
}
