package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

// EveryOptions are the options of Every. The zero value is the default.
type EveryOptions struct {
	// CatchUp says which of the times that nobody ran are run later.
	CatchUp CatchUp
	// Most bounds how many All runs. 0 means 100.
	Most int
	// Notify, if not nil, is called with what Every did. It is called in the goroutine that called
	// Every, and no job runs meanwhile.
	Notify func(Firing)
}

const defaultMost = 100

// A Firing is what Every did for one time of the schedule.
type Firing struct {
	At      time.Time     // the time of the schedule; zero if Every failed before it was known
	Late    time.Duration // from At to the call of the function
	Took    time.Duration // how long the function ran
	Skipped int           // how many times before At nobody has run, and nobody will
	Err     error         // of the function, or of what comes before and after it; nil if it ran and is recorded
}

// Every runs fn once for each time of the schedule s, on one of all processes that call it for the
// name, until ctx ends. It is Once for each of these times, with Once's record: fn runs under the
// lock, and the record is written after it has returned nil, or before it is called with
// Options.RecordFirst.
//
// The record shows which times were missed, so a process that is killed in the middle of a run
// loses none: the next process runs it. CatchUp says which of several missed times are run. The
// first call of all records the time of that call, and what is due after that is run. A clock that
// is ahead of the others decides when the job runs; it runs once even so.
//
// If fn fails, it is called again, here or by another process that waits, until it returns nil, or,
// with Latest and Skip, until the next time has come. Before each further try, Every waits about a
// second at first, and up to a minute later. After a failure of the cluster it does the same. Both
// are reported to Notify only. With Options.RecordFirst, a run that failed is recorded, so it is
// not repeated.
//
// fn is called in the goroutine that called Every, one call at a time. Its ctx is a child of
// Every's, carries the token, and is cancelled with the cause when the lock is lost. When ctx ends,
// Every waits for fn, then returns within 100 ms, with ctx's cause. It returns nil when the
// schedule has no further time, and another error when it cannot go on: the client is closed, the
// Mutex is of a session that has ended, ErrClusterChanged, ErrTokenFloor, an invalid argument, or a
// schedule that goes backwards.
//
// While nothing is due, Every sends nothing. For each time, each process reads the record once, and
// those that find that it has not run wait for the lock. A process that was suspended reads the
// clock within a minute.
func (m *Mutex) Every(ctx context.Context, s Schedule, fn func(ctx context.Context, h *Held, at time.Time) error, opts EveryOptions) error {
	r, err := m.record(ctx)
	if err == nil {
		err = checkSchedule(s)
	}
	switch {
	case err != nil:
	case fn == nil:
		err = errors.New("nil function")
	case opts.CatchUp < Latest || opts.CatchUp > Skip:
		err = fmt.Errorf("EveryOptions.CatchUp is %d, want Latest, All or Skip", opts.CatchUp)
	case opts.Most < 0:
		err = fmt.Errorf("EveryOptions.Most is %d, want 0 or more", opts.Most)
	default:
		if opts.Most == 0 {
			opts.Most = defaultMost
		}
		r.schedule = s
		e := &every{m: m, record: r, schedule: s, fn: fn, opts: opts}
		if err = e.run(ctx); err == nil {
			return nil
		}
	}
	return m.all().failed("every", err)
}

// every is one call of Every. Only the goroutine that called Every uses it.
type every struct {
	m        *Mutex
	record   *record
	schedule Schedule
	fn       func(ctx context.Context, h *Held, at time.Time) error
	opts     EveryOptions

	waited time.Time // the time that was waited for last
	plan   plan
}

// plan is what the record, as it was read last, leaves to do.
type plan struct {
	first   bool // there is no record
	skipped int
	next    time.Time // the first time that is not due yet; zero if there is none
	err     error     // the schedule's
}

const (
	retryFirst = time.Second
	retryMost  = time.Minute
)

func (e *every) run(ctx context.Context) error {
	retry := backoff.Backoff{First: retryFirst, Most: retryMost}
	for {
		ran, err := e.round(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case e.plan.err != nil:
			return e.plan.err
		case err != nil:
			if final := e.final(ctx, err); final != nil {
				return final
			}
			e.pause(ctx, retry.Next())
			continue
		case !ran && e.plan.next.IsZero():
			return nil
		case !ran && e.sleepUntil(ctx, e.plan.next):
			e.waited = e.plan.next
		}
		retry.Reset()
	}
}

// round runs fn for one time, if one is due.
func (e *every) round(ctx context.Context) (ran bool, err error) {
	var f Firing
	ran, err = e.m.once(ctx, e.record, e.due, func(ctx context.Context, h *Held, at time.Time) error {
		began := time.Now()
		f = Firing{At: at, Late: began.Sub(at), Skipped: e.plan.skipped}
		err := e.fn(ctx, h, at)
		f.Took = time.Since(began)
		return err
	})
	if err == nil && !ran && e.plan.first {
		if err = e.record.begin(ctx, time.Now()); err == nil {
			return e.round(ctx)
		}
	}
	if f.Err = err; !ran && (err == nil || ctx.Err() != nil) {
		return ran, err
	}
	if ran {
		e.record.ran(ctx, observe.JobRan{Name: e.m.Name(), At: f.At, Late: f.Late, Took: f.Took, Skipped: f.Skipped, Err: err})
	}
	if e.opts.Notify != nil {
		e.opts.Notify(f)
	}
	return ran, err
}

// due chooses the time to run now, by the record.
func (e *every) due(last time.Time, recorded bool) (at time.Time, ok bool) {
	if e.plan = (plan{first: !recorded}); !recorded {
		return at, false
	}
	most := 1
	if e.opts.CatchUp == All {
		most = e.opts.Most
	}
	var times []time.Time
	times, e.plan.skipped, e.plan.next, e.plan.err = missed(e.schedule, last, time.Now(), most)
	if len(times) == 0 || e.plan.err != nil || e.opts.CatchUp == Skip && !times[0].Equal(e.waited) {
		return at, false
	}
	return times[0], true
}

// final returns why Every ends after err, or nil if it goes on.
func (e *every) final(ctx context.Context, err error) error {
	if s, ok := e.m.sessions.(*pawl.Session); ok && s.Err() != nil {
		return s.Err()
	}
	if _, closed := inside.HostFor(ctx, e.m.sessions); errors.Is(closed, lease.ErrClosed) {
		return closed
	}
	if errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, pawl.ErrTokenFloor) {
		return err
	}
	return nil
}

// pause waits for d, and no longer than until another time is due in place of the one that failed.
func (e *every) pause(ctx context.Context, d time.Duration) {
	left := untilTime(e.plan.next)
	if e.opts.CatchUp == All || left <= 0 || d < left {
		backoff.Sleep(ctx, d)
	} else if e.sleepUntil(ctx, e.plan.next) {
		e.waited = e.plan.next
	}
}

// untilTime returns how long it is until t by the machine's clock.
func untilTime(t time.Time) time.Duration { return t.Round(0).Sub(time.Now().Round(0)) }

// readClockEvery is how often a wait reads the clock, because a timer stands still while the machine
// is suspended.
const readClockEvery = time.Minute

// sleepUntil waits until t by the machine's clock. It returns false if ctx ended before.
func (e *every) sleepUntil(ctx context.Context, t time.Time) bool {
	for {
		left := untilTime(t)
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !backoff.Sleep(ctx, min(left, readClockEvery)) {
			return false
		}
	}
}

// begin records now as the time after which the schedule counts, unless somebody has recorded one.
func (r *record) begin(ctx context.Context, now time.Time) error {
	first := r.run(now)
	first.Began = true
	_, err := r.kv.Txn(ctx, kv.Txn{If: []kv.Cond{kv.Absent(r.key)}, Then: []kv.Op{kv.Put(r.key, first.Value())}})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}
