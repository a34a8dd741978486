//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// manyHeld holds n locks in one session, in addition to none, or to those that it holds
// already, and returns what each of them costs.
func manyHeld(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	have := len(w.held)
	if have == 0 { // the cost of a session's first lock is not the cost of each lock
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
	time.Sleep(1500 * time.Millisecond) // until all are watched, by kits that watch
	return f, w.occupied(&f, before, n-have)
}

// renewals is what keeping n sessions alive costs for a TTL. An operation is one
// session kept for one TTL.
func renewals(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	return w.keep(n, len(w.sessions), func() error { return w.grow(ctx, n) })
}

// renewalsApart is renewals of n clients of one session each.
func renewalsApart(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	return w.keep(n, 1, func() error {
		return each(32, n-1, func(int) error {
			c, err := w.kit.dial(ctx, w.Dial...)
			if err != nil {
				return err
			}
			_, err = c.session(ctx, w.Scenario.TTL)
			return err
		})
	})
}

// keep measures what n sessions cost. grow makes all but have of them.
func (w *worker) keep(n, have int, grow func() error) (f figures, err error) {
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	if err := grow(); err != nil {
		return f, err
	}
	// This is the steady state. Kits that renew at once, at a quarter or at a fifth of the TTL,
	// renew in the middle of the measurement, and not at its ends.
	time.Sleep(w.Scenario.TTL * 9 / 8)
	f, err = w.metered(func() (int, error) {
		time.Sleep(w.Scenario.Span)
		return max(1, int(float64(n)*w.Scenario.Span.Seconds()/w.Scenario.TTL.Seconds())), nil
	})
	if err != nil {
		return f, err
	}
	if err := w.allKept(n); err != nil {
		return f, err
	}
	return f, w.occupied(&f, before, n-have)
}

// allKept reports an error if the server has fewer than n leases, because lost sessions cost
// nothing.
func (w *worker) allKept(n int) error {
	conn, err := connect(w.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := pb.NewLeaseClient(conn).LeaseLeases(context.Background(), &pb.LeaseLeasesRequest{})
	if err == nil && len(all.Leases) < n {
		err = fmt.Errorf("%d of %d sessions are left", len(all.Leases), n)
	}
	return err
}
