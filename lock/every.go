package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/failing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
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

// A Firing is what Every did for one time of the schedule, or what keeps it from that.
type Firing struct {
	At   time.Time     // the time of the schedule; zero if Every failed before it was known
	Late time.Duration // from At to the call of the function
	Took time.Duration // how long the function ran
	// Skipped is how many times before At nobody has run, and nobody will. It is in the Firing of the
	// run that is recorded, so that each of them is counted once, in whichever process.
	Skipped int
	// Err is that of the function, or of what comes before and after it. It is nil if the function ran
	// and is recorded. Without an At, it may match ErrRecordAhead, ErrOtherSchedule or ErrSchedule.
	Err error
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
// with Latest and Skip, until the next time has come. The record says when: about a second later at
// first, and up to a minute later, on one of all processes. With Options.RecordFirst, a run that failed
// is recorded, so it is not repeated. After another failure, such as one of the cluster, each process
// tries again after as long.
//
// A record that another schedule has written, as after a change of the schedule, says nothing about the
// times of this one: those before this call of Every are not run. A record that is ahead of this
// machine's clock by more than a minute is a failure (ErrRecordAhead), and is read again until it is set
// back or its time has come. Where s does not advance (ErrSchedule), Every goes on with the next time at
// least a minute later. Notify is told of each of these. The client's logger gets a warning when a
// failure begins and one when it ends.
//
// fn is called in the goroutine that called Every, one call at a time. Its ctx is a child of
// Every's, carries the token, and is cancelled with the cause when the lock is lost. When ctx ends,
// Every waits for fn, then returns within 100 ms, with ctx's cause, and in its text the failure that
// Every was trying to get over, if there is one. It returns nil when the schedule has no further time,
// and another error when it cannot go on: the client is closed, the Mutex is of a session that has
// ended, ErrClusterChanged, ErrTokenFloor, an invalid argument, or a schedule that never advances.
//
// While nothing is due, Every sends nothing. For each time, each process reads the record once, and
// those that find that it has not run wait for the lock. If the Mutex was made with a client, they do so
// on a session of Every's own, with the client's Config.Session, which ends if nothing is due for four
// TTLs. A process that was suspended reads the clock within a minute.
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
		e := newEvery(m, r, s, fn, opts)
		defer e.leave() // also if fn or Notify panics
		if err = e.failures.With(e.jobs.With(e.run(ctx))); err == nil {
			return nil
		}
	}
	return m.all().failed("every", err)
}

// every is one call of Every. Only the goroutine that called Every uses it.
type every struct {
	m        *Mutex // as the caller made it
	own      *Mutex // on sessions that nobody else uses, if m is a client's
	end      func(after time.Duration)
	idle     time.Duration // the session ends if nothing is due for so long
	held     time.Time     // when the lock was last acquired
	record   *record
	schedule Schedule
	fn       func(ctx context.Context, h *Held, at time.Time) error
	opts     EveryOptions

	plan   plan
	missed missed
	waited time.Time // the time that was waited for last
	since  time.Time // times before it are not run if the record is of another schedule; zero until a record was read
	seen   struct {  // the record that was read last
		mod int64
		at  time.Time // when it was read first
	}
	spot  time.Time // where the schedule did not advance, as was last reported
	other bool      // that another schedule uses the record was logged

	denied   bool // the last try was not permitted
	failures *failing.Report
	jobs     *failing.Report // of fn
}

const (
	retryFirst = time.Second
	retryMost  = time.Minute
	idleTTLs   = 4
)

func newEvery(m *Mutex, r *record, s Schedule, fn func(context.Context, *Held, time.Time) error, opts EveryOptions) *every {
	log := r.cluster.Logger()
	e := &every{
		m: m, own: m, end: func(time.Duration) {}, record: r, schedule: s, fn: fn, opts: opts,
		missed:   missed{schedule: s, most: 1},
		failures: failing.New(log, "schedule", "name", m.Name()), jobs: failing.New(log, "job", "name", m.Name()),
	}
	if opts.CatchUp == All {
		e.missed.most = opts.Most
	}
	if own, end, ttl := hooks.Own(m.sessions); own != nil {
		e.own, e.end, e.idle = New(own.(pawl.Sessions), m.Name(), m.opts), end, idleTTLs*ttl
	}
	return e
}

// leave ends Every's session as soon as the lock has been held for Options.AtLeast.
func (e *every) leave() {
	e.end(time.Until(e.held.Add(e.m.opts.AtLeast)))
}

func (e *every) run(ctx context.Context) error {
	retry := backoff.Backoff{First: retryFirst, Most: retryMost}
	for {
		r := e.round(ctx)
		switch end := failing.Ended(ctx); {
		case end != nil:
			return end
		case e.plan.err != nil:
			return e.plan.err
		case r.err != nil:
			if final := e.final(ctx, r.err); final != nil {
				return final
			}
			e.failed(r)
			if !r.paused {
				e.pause(ctx, retry.Next())
			}
			continue
		case r.ran:
			e.jobs.Works()
		case !e.plan.again.IsZero():
			e.pause(ctx, untilTime(e.plan.again))
		case e.plan.next.IsZero():
			return nil
		default:
			e.rest(ctx)
		}
		retry.Reset()
	}
}

// failed reports to the log that a round failed.
func (e *every) failed(r round) {
	e.denied = cluster.IsPermissionDenied(r.err)
	switch {
	case r.failed:
		e.failures.Works() // as far as the call of fn
		e.jobs.Failed("of the function", r.err)
	case e.denied:
		e.failures.Failed("permission", r.err)
	case errors.Is(r.err, errNoTime), errors.Is(r.err, ErrRecordAhead):
		e.leave() // it may last
		e.failures.Failed("record", r.err)
	default:
		e.failures.Failed("cluster", r.err)
	}
}

// A round is what came of one time, if one was due.
type round struct {
	ran    bool
	err    error
	failed bool // err is fn's
	paused bool // the record says until when no machine runs fn again
}

// round runs fn for one time, if one is due.
func (e *every) round(ctx context.Context) (r round) {
	var f Firing
	if r.err = e.permitted(ctx); r.err == nil {
		r.ran, r.err = e.own.once(ctx, e.record, e.due, func(ctx context.Context, h *Held, at time.Time) (err error) {
			began := time.Now()
			e.held, f = began, Firing{At: at, Late: began.Sub(at)}
			if err = e.fn(ctx, h, at); err != nil {
				r.failed = true
				r.paused = !e.m.opts.RecordFirst && ctx.Err() == nil && e.record.fail(ctx, h, at) == nil
			}
			f.Took = time.Since(began)
			return err
		})
	}
	if r.err == nil {
		e.report(e.plan)
		if !r.ran {
			e.settled()
		}
	}
	if r.err == nil && e.plan.begin {
		now := time.Now()
		if r.err = e.record.begin(ctx, now); r.err == nil {
			e.since = now
			return e.round(ctx)
		}
	}
	if f.Err = r.err; !r.ran && (r.err == nil || ctx.Err() != nil) {
		return r
	}
	if r.ran {
		if r.err == nil || e.m.opts.RecordFirst {
			f.Skipped = e.plan.skipped
		}
		e.record.ran(ctx, observe.JobRan{Name: e.m.Name(), At: f.At, Late: f.Late, Took: f.Took, Skipped: f.Skipped, Err: r.err})
	}
	e.notify(f)
	return r
}

// settled records that nothing but fn keeps Every from its work.
func (e *every) settled() {
	e.denied = false
	e.failures.Works()
	if e.record.last.Failed.Times == 0 {
		e.jobs.Works() // another process has run it
	}
}

// report reports what the plan found wrong.
func (e *every) report(p plan) {
	if p.other != nil {
		if !e.other {
			e.record.cluster.Logger().Warn("schedule: times before now are not run", "name", e.m.Name(), "error", p.other)
		}
		e.other = true
		e.notify(Firing{Err: p.other})
	}
	if p.bad != nil && !p.spot.Equal(e.spot) {
		e.record.cluster.Logger().Warn("schedule: stepped over a time", "name", e.m.Name(), "error", p.bad)
		e.spot = p.spot
		e.notify(Firing{Err: p.bad})
	}
}

func (e *every) notify(f Firing) {
	if e.opts.Notify != nil {
		e.opts.Notify(f)
	}
}

// permitted asks, after a try that was not permitted, whether another one would be, and its record. Or fn
// would run again and again for a time that nobody can record.
func (e *every) permitted(ctx context.Context) error {
	if !e.denied {
		return nil
	}
	host, err := hooks.HostFor(ctx, e.own.sessions)
	if err != nil {
		return err
	}
	queues, err := e.own.options().Queues(host.Namespace, e.own.wants)
	if err != nil {
		return err
	}
	if err := session.Permitted(ctx, host, queues[0].Prefix); err != nil {
		return err
	}
	return e.record.permitted(ctx)
}

// final returns why Every ends after err, or nil if it goes on.
func (e *every) final(ctx context.Context, err error) error {
	if s, ok := e.m.sessions.(*pawl.Session); ok && s.Err() != nil {
		return s.Err()
	}
	if _, closed := hooks.HostFor(ctx, e.m.sessions); errors.Is(closed, lease.ErrClosed) {
		return closed
	}
	if errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, pawl.ErrTokenFloor) {
		return err
	}
	return nil
}

// rest waits for the next time. If that is far, it does so without a session.
func (e *every) rest(ctx context.Context) {
	if untilTime(e.plan.next) > e.idle {
		e.leave()
	}
	if e.sleepUntil(ctx, e.plan.next) {
		e.waited = e.plan.next
	}
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
