package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
)

// Once runs fn under the lock and records the run, unless a run for at, or for a later time, is
// recorded under the name. So a job that many machines start at the same time runs once for
// each firing, however short it is. at is the time for which the run was due, the same on all
// machines, and not the time of the call. ran reports whether fn was called.
//
// The record is written under the lock's guard after fn has returned nil, so fn runs at least once.
// If fn fails, the lock is lost, or the record cannot be written, the next Once for at runs fn
// again. With Options.RecordFirst it is written before fn is called, so fn runs at most once.
//
// If the run is recorded already, Once costs one read, and no lock. Otherwise Once waits for
// the lock as Acquire does, and runs fn as Held.Do does, with the same context, release, and
// errors. If ran is true, an error comes from fn, the record, or the release. If fn has used
// all of ctx's time, the record is still tried for 15 ms. The record stays: one key for each
// name, with the latest at, on no lease. A time that it cannot hold is refused: the zero time, and
// years outside of 0 to 9999. If the record is of a time that is later than at and more than a minute
// ahead of this machine's clock, Once runs nothing, and its error matches ErrRecordAhead.
func (m *Mutex) Once(ctx context.Context, at time.Time, fn func(ctx context.Context, h *Held) error) (ran bool, err error) {
	r, err := m.record(ctx)
	switch {
	case err != nil:
	case fn == nil:
		err = errors.New("nil function")
	case at.IsZero():
		err = errors.New("the time is zero, want that for which the run is due")
	case !recordable(at):
		err = fmt.Errorf("the time is in the year %d, which the record cannot hold, want one from 0 to 9999: is it in milliseconds, and was read as seconds?", at.UTC().Year())
	default:
		return m.once(ctx, r, func(run keys.Run, recorded bool) (time.Time, bool, error) {
			return at, !recorded || run.At.Before(at), r.checkAhead(run, at)
		}, func(ctx context.Context, h *Held, _ time.Time) error { return fn(ctx, h) })
	}
	return false, m.all().failed("once", err)
}

// once runs fn under the lock for the time that due chooses, and records it. It gives due the record,
// if there is one, before it waits for the lock and again while it holds it.
func (m *Mutex) once(ctx context.Context, r *record, due func(run keys.Run, recorded bool) (at time.Time, ok bool, err error),
	fn func(ctx context.Context, h *Held, at time.Time) error) (ran bool, err error) {
	readDue := func(ctx context.Context) (at time.Time, ok bool, err error) {
		run, recorded, err := r.read(ctx)
		if err != nil {
			return time.Time{}, false, err
		}
		return due(run, recorded)
	}
	if _, ok, err := readDue(ctx); err != nil {
		return false, m.all().failed("once", err)
	} else if !ok {
		return false, nil
	}
	h, err := m.Acquire(ctx)
	if err != nil {
		return false, err
	}
	err = h.do(ctx, fn, func(ctx context.Context) error {
		at, ok, err := readDue(ctx)
		if err != nil || !ok {
			return err
		}
		if m.opts.RecordFirst {
			if err := r.write(ctx, h, r.run(at)); err != nil {
				return err
			}
			ran = true
			return fn(ctx, h, at)
		}
		ran = true
		if err := fn(ctx, h, at); err != nil {
			return err
		}
		return r.write(ctx, h, r.run(at))
	})
	return ran, err
}
