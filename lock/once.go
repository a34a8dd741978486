package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/kvinside"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/observe"
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
// years outside of 0 to 9999.
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
		return m.once(ctx, r, func(last time.Time, recorded bool) (time.Time, bool) {
			return at, !recorded || last.Before(at)
		}, func(ctx context.Context, h *Held, _ time.Time) error { return fn(ctx, h) })
	}
	return false, m.all().failed("once", err)
}

// once runs fn under the lock for the time that due chooses, and records it. It gives due the time
// of the record, if there is one, before it waits for the lock and again while it holds it.
func (m *Mutex) once(ctx context.Context, r *record, due func(last time.Time, recorded bool) (at time.Time, ok bool),
	fn func(ctx context.Context, h *Held, at time.Time) error) (ran bool, err error) {
	readDue := func(ctx context.Context) (at time.Time, ok bool, err error) {
		last, recorded, err := r.read(ctx)
		if err != nil {
			return time.Time{}, false, err
		}
		at, ok = due(last, recorded)
		return at, ok, nil
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
	err = h.Do(ctx, func(ctx context.Context) error {
		at, ok, err := readDue(ctx)
		if err != nil || !ok {
			return err
		}
		if m.opts.RecordFirst {
			if err := r.write(ctx, h, at); err != nil {
				return err
			}
			ran = true
			return fn(ctx, h, at)
		}
		ran = true
		if err := fn(ctx, h, at); err != nil {
			return err
		}
		return r.write(ctx, h, at)
	})
	return ran, err
}

// recordable reports whether a record can hold at.
func recordable(at time.Time) bool {
	back, ok := keys.ParseRun(keys.Run{At: at}.Value())
	return ok && back.At.Equal(at)
}

// A record holds the time for which the last run of a name was due.
type record struct {
	cluster *cluster.Cluster
	kv      *kv.Client
	key     string
	mod     int64 // as read found it; 0 if the record does not exist

	schedule Schedule // if not nil, the record says its next time too
}

func (m *Mutex) record(ctx context.Context) (*record, error) {
	if err := m.all().check(ctx); err != nil {
		return nil, err
	}
	host, err := inside.HostFor(ctx, m.sessions)
	if err != nil {
		return nil, err
	}
	return &record{cluster: host.Cluster, kv: kvinside.Client(host.Cluster).(*kv.Client), key: keys.OnceKey(host.Namespace, m.Name())}, nil
}

// read returns the time that is recorded, if one is.
func (r *record) read(ctx context.Context) (last time.Time, recorded bool, err error) {
	found, err := r.kv.Get(ctx, r.key)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read the record: %w", err)
	}
	if r.mod = found.ModRevision; r.mod == 0 {
		return time.Time{}, false, nil
	}
	run, recorded := keys.ParseRun(found.Value)
	if !recorded {
		return time.Time{}, false, fmt.Errorf("the record %q holds no time, but %.40q: put the time of the last run there, in the form 2006-01-02T15:04:05Z, or delete the key, and the next call runs", r.key, found.Value)
	}
	return run.At, true, nil
}

// run returns the record of a run for at.
func (r *record) run(at time.Time) keys.Run {
	if r.schedule == nil {
		return keys.Run{At: at}
	}
	return keys.Run{At: at, Next: r.schedule.Next(at.Local())}
}

// ran reports a run to the client's observer.
func (r *record) ran(ctx context.Context, ev observe.JobRan) {
	r.cluster.Notifier().NewSource().Now(context.WithoutCancel(ctx), ev)
}

// recordGrace is how long Once waits for a record after the context's end: what the release
// leaves of the 100 ms within which every call returns.
const recordGrace = 15 * time.Millisecond

// recordTotal is how long a record whose outcome is unknown is sent again. The outcome may stay
// unknown, as on a full disk.
const recordTotal = 12 * time.Second

// write records a run for at, if h is held and nobody has written the record since it was read. It
// sends the record again after an unknown outcome, because two copies cannot both be applied, and a
// record for at counts no matter which process wrote it.
func (r *record) write(ctx context.Context, h *Held, at time.Time) error {
	grace, cancel := cluster.WithGrace(ctx, recordGrace)
	defer cancel()
	cond := kv.Absent(r.key)
	if r.mod != 0 {
		cond = kv.ModRevision(r.key, r.mod)
	}
	began := time.Now()
	for wait := backoff.Request(); ; {
		res, err := r.kv.Txn(grace, kv.Txn{
			Guards: []kv.Guard{h.Guard()}, If: []kv.Cond{cond}, Then: []kv.Op{kv.Put(r.key, r.run(at).Value())},
		})
		switch {
		case err == nil && res.OK:
			return nil
		case err != nil:
			if !errors.Is(err, kv.ErrUnknown) || time.Since(began) > recordTotal || !wait.Sleep(grace) {
				return fmt.Errorf("write the record: %w", err)
			}
		default:
			if last, recorded, rerr := r.read(grace); rerr != nil || recorded && !last.Before(at) {
				return rerr
			}
			return fmt.Errorf("write the record: somebody else has written %q", r.key)
		}
	}
}

func init() {
	inside.RecordOf = func(ctx context.Context, mutex any) (inside.Record, error) {
		r, err := mutex.(*Mutex).record(ctx)
		return insideRecord{r}, err
	}
}

// insideRecord is a record as package inside hands it out.
type insideRecord struct{ *record }

func (r insideRecord) Covers(ctx context.Context, at time.Time) (bool, error) {
	last, recorded, err := r.read(ctx)
	return recorded && !last.Before(at), err
}

func (r insideRecord) Write(ctx context.Context, held any, at time.Time) error {
	return r.write(ctx, held.(*Held), at)
}
