package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/observe"
)

// recordable reports whether a record can hold at.
func recordable(at time.Time) bool {
	back, ok := keys.ParseRun(keys.Run{At: at}.Value())
	return ok && back.At.Equal(at)
}

// A record is that of a name's last run, in etcd. One goroutine at a time uses it.
type record struct {
	name    string
	cluster *cluster.Cluster
	kv      *kv.Client
	key     string
	mod     int64    // as read found it; 0 if the record does not exist
	last    keys.Run // likewise

	schedule Schedule // if not nil, the record says its next time too
}

func (m *Mutex) record(ctx context.Context) (*record, error) {
	if err := m.all().check(ctx); err != nil {
		return nil, err
	}
	host, err := hooks.HostFor(ctx, m.sessions)
	if err != nil {
		return nil, err
	}
	return &record{
		name: m.Name(), cluster: host.Cluster, kv: hooks.KVClient(host.Cluster).(*kv.Client), key: keys.OnceKey(host.Namespace, m.Name()),
	}, nil
}

// errNoTime means that the record was not written by pawl.
var errNoTime = errors.New("holds no time")

// read returns the record, if there is one.
func (r *record) read(ctx context.Context) (run keys.Run, recorded bool, err error) {
	found, err := r.kv.Get(ctx, r.key)
	if err != nil {
		return keys.Run{}, false, fmt.Errorf("read the record: %w", err)
	}
	if r.mod, r.last = found.ModRevision, (keys.Run{}); r.mod == 0 {
		return keys.Run{}, false, nil
	}
	run, recorded = keys.ParseRun(found.Value)
	if !recorded {
		return keys.Run{}, false, fmt.Errorf("the record %q %w, but %.40q: put the time of the last run there with pawl runs --set, or delete the key, and the next call runs", r.key, errNoTime, found.Value)
	}
	r.last = run
	return run, true, nil
}

// aheadMost is how far a record may be ahead of this machine's clock. The clocks of machines that NTP
// keeps differ by less.
const aheadMost = time.Minute

// checkAhead returns an error if the record is of a time that has not come yet, unless it is at, the
// time that the caller asks for.
func (r *record) checkAhead(run keys.Run, at time.Time) error {
	now := time.Now()
	if !run.At.After(now.Add(aheadMost)) || !run.At.After(at) {
		return nil
	}
	return fmt.Errorf("%w: %q is of %s, and it is %s here: correct the clock that is wrong, then set the record back with pawl runs --set TIME %s",
		ErrRecordAhead, r.key, run.At.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), r.name)
}

// run returns the record of a run for at.
func (r *record) run(at time.Time) keys.Run {
	if r.schedule == nil {
		return keys.Run{At: at}
	}
	next, _, _ := nextAfter(r.schedule, at)
	return keys.Run{At: at, Next: next}
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

// write writes run, if h is held and nobody has written the record since it was read. It sends the
// record again after an unknown outcome, because two copies cannot both be applied, and a record for
// run.At counts no matter which process wrote it.
func (r *record) write(ctx context.Context, h *Held, run keys.Run) error {
	grace, cancel := cluster.WithGrace(ctx, recordGrace)
	defer cancel()
	cond := kv.Absent(r.key)
	if r.mod != 0 {
		cond = kv.ModRevision(r.key, r.mod)
	}
	began := time.Now()
	for wait := backoff.Request(); ; {
		res, err := r.kv.Txn(grace, kv.Txn{
			Guards: []kv.Guard{h.Guard()}, If: []kv.Cond{cond}, Then: []kv.Op{kv.Put(r.key, run.Value())},
		})
		switch {
		case err == nil && res.OK:
			return nil
		case err != nil:
			if !errors.Is(err, kv.ErrUnknown) || time.Since(began) > recordTotal || !wait.Sleep(grace) {
				return fmt.Errorf("write the record: %w", err)
			}
		default:
			if found, recorded, rerr := r.read(grace); rerr != nil || recorded && !found.At.Before(run.At) {
				return rerr
			}
			return fmt.Errorf("write the record: somebody else has written %q", r.key)
		}
	}
}

// permitted returns nil if the client's user may write the record. It sends a write whose condition is
// never true.
func (r *record) permitted(ctx context.Context) error {
	_, err := r.kv.Txn(ctx, kv.Txn{If: []kv.Cond{kv.ModRevision(r.key, math.MaxInt64)}, Then: []kv.Op{kv.Put(r.key, nil)}})
	if err != nil {
		return fmt.Errorf("permission to write the record: %w", err)
	}
	return nil
}

// fail records that a run for at has failed, and until when no machine runs it again.
func (r *record) fail(ctx context.Context, h *Held, at time.Time) error {
	run := r.last
	run.Failed.At = at
	run.Failed.Times = min(run.Failed.Times, math.MaxInt32) + 1
	wait := backoff.Backoff{First: retryFirst, Most: retryMost}
	for range min(run.Failed.Times-1, 10) { // by then it is retryMost
		wait.Next()
	}
	run.Failed.Again = time.Now().Add(wait.Next())
	return r.write(ctx, h, run)
}

// begin records now as the time after which the schedule counts, unless somebody has written the record
// since it was read.
func (r *record) begin(ctx context.Context, now time.Time) error {
	first, cond := r.run(now), kv.Absent(r.key)
	if first.Began = true; r.mod != 0 {
		cond = kv.ModRevision(r.key, r.mod)
	}
	_, err := r.kv.Txn(ctx, kv.Txn{If: []kv.Cond{cond}, Then: []kv.Op{kv.Put(r.key, first.Value())}})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}

func init() {
	hooks.RecordOf = func(ctx context.Context, mutex any) (hooks.Record, error) {
		r, err := mutex.(*Mutex).record(ctx)
		return hookRecord{r}, err
	}
}

// hookRecord is a record as package hooks hands it out.
type hookRecord struct{ *record }

func (r hookRecord) Covers(ctx context.Context, at time.Time) (bool, error) {
	run, recorded, err := r.read(ctx)
	if err != nil {
		return false, err
	}
	return recorded && !run.At.Before(at), r.checkAhead(run, at)
}

func (r hookRecord) Write(ctx context.Context, held any, at time.Time) error {
	return r.write(ctx, held.(*Held), r.run(at))
}
