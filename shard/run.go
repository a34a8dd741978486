package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/failing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/observe"
)

// settle is how long after the last change a plan is made.
const settle = time.Second

// Run works on shards of name, together with every other Run of that name and n, until ctx ends. Each
// of the shards 0 to n-1 is worked on by one of them, and each of them has its share.
//
// work is called for each shard that this worker gets, in a new goroutine, concurrently with its other
// shards. Its ctx has the values of Run's, carries the shard's token, and ends at the loss of the
// shard, with the cause, and with ErrMoved when another worker waits for the shard. It does not end
// with Run's ctx. When work has returned after ErrMoved, the shard is released, or, if nobody waits for
// it any more, work is called again. If work returns before ErrMoved, it gives the shard up, and this
// worker does not take it again for a while: 2 s, and up to 1 min if that repeats. A panic of work is
// not recovered.
//
// When ctx ends, Run gives its shards to the others. work goes on until another worker waits for the
// shard, or no other worker is left, and for the TTL and a second at most. Run returns ctx's cause when
// all works have returned. It waits for a work that ignores its context.
//
// Run replaces a session that is lost, as often as necessary. The client's logger gets a warning when a
// failure to join, or to queue for shards, begins, and one when it ends. If it has not ended, the text of
// Run's error contains it. If work of a lost shard still runs, it
// keeps that shard, and no other, from being taken again. Run returns an error instead when it matches
// ErrCount, pawl.ErrClusterChanged or pawl.ErrTokenFloor, when the client is closed (lease.ErrClosed),
// and when an argument is invalid.
func Run(ctx context.Context, c *pawl.Client, name string, n int, opts Options, work func(ctx context.Context, h *Held) error) error {
	r := &runner{client: c, name: name, n: n, opts: opts, work: work, mail: newMail()}
	if err := r.check(ctx); err != nil {
		return failed("run", name, ctx, err)
	}
	weight := opts.Weight
	if weight == 0 {
		weight = 1
	}
	r.w = shards.NewWorker(n, shards.Member{Weight: weight, Value: bytes.Clone(opts.Value), ID: opts.ID}, opts.Session.WithDefaults().TTL, settle, opts.Moves)
	if opts.Load != nil {
		r.w.Meter = shards.NewMeter(r.w.TTL)
	}
	r.w.Stall = opts.Stall
	r.values = context.WithoutCancel(ctx)
	r.rejoin = backoff.Backoff{First: minPause, Most: maxPause}
	return failed("run", name, ctx, r.failures.With(r.queueFailures.With(r.run(ctx))))
}

// The bounds of the pause before another session is made.
const (
	minPause = 500 * time.Millisecond
	maxPause = 30 * time.Second
)

// A runner is one call of Run. Only the goroutine that called Run uses it, except for post. Other
// goroutines do what takes time, and post what has to follow.
type runner struct {
	client *pawl.Client
	name   string
	n      int
	opts   Options
	work   func(ctx context.Context, h *Held) error
	values context.Context // of Run's ctx; never ends
	keys   keys.Shards
	host   session.Host

	w       *shards.Worker
	m       *member // nil if there is none
	joining context.CancelFunc
	rejoin  backoff.Backoff
	joinAt  time.Time                  // when to try to join next
	tries   map[int]context.CancelFunc // by shard, cancels the acquisition under way
	works   int                        // works that run
	jobs    int                        // goroutines that will still post

	denied        bool            // the last try to join was not permitted
	failures      *failing.Report // to join
	queueFailures *failing.Report // to queue for shards

	loads measuring

	source  *notify.Source
	leaving bool
	result  error // why Run ends; nil if because of ctx

	*mail
	todo []func() // taken from mail; only the loop uses it

	mu sync.Mutex // guards member.term and member.said
}

func (r *runner) check(ctx context.Context) (err error) {
	switch {
	case ctx == nil:
		return errNilContext
	case r.work == nil:
		return errors.New("nil work")
	case r.n < 1 || r.n > MaxShards:
		return fmt.Errorf("%d shards, want 1 to %d", r.n, MaxShards)
	}
	if err := r.opts.check(); err != nil {
		return err
	}
	if r.host, err = hooks.HostOf(r.client); err != nil {
		return err
	}
	r.source = r.host.Cluster.Notifier().NewSource()
	log := r.host.Cluster.Logger()
	r.failures, r.queueFailures = failing.New(log, "shards: to join", "name", r.name), failing.New(log, "shards: to queue", "name", r.name)
	r.loads.trouble = failing.New(log, "shards: to measure loads", "name", r.name)
	r.keys, err = keys.NewShards(r.host.Namespace, r.name)
	r.tries = map[int]context.CancelFunc{}
	return err
}

// job runs job in a goroutine, and then the function that it returned in Run's goroutine. Run waits for
// both.
func (r *runner) job(job func() func()) {
	r.jobs++
	go func() { // ends with job; the loop waits for what it posts
		then := job()
		r.post(func() {
			r.jobs--
			then()
		})
	}()
}

// errExited replaces the error of a function that did not return.
var errExited = errors.New("it ended its goroutine (runtime.Goexit) instead of returning")

// call is job for a function of the user, which may end its goroutine instead of returning.
func (r *runner) call(f func() error, then func(err error)) {
	r.jobs++
	go func() { // ends with f; the loop waits for what it posts
		err := errExited
		defer func() {
			r.post(func() {
				r.jobs--
				then(err)
			})
		}()
		err = f()
	}()
}

func (r *runner) notify(ev Event) {
	if r.opts.Notify != nil {
		r.opts.Notify(ev)
	}
}

// run is the loop.
func (r *runner) run(ctx context.Context) error {
	ended := false
	defer func() {
		if !ended {
			r.abandon()
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		r.step(time.Now())
		if r.leaving && r.works == 0 && r.w.Idle() {
			break
		}
		timer.Reset(r.wake(time.Now()))
		select {
		case <-r.news:
			r.process()
		case <-timer.C:
		case <-stop:
			stop = nil
			r.leave()
		}
	}
	r.part()
	ended = true
	if r.result != nil {
		return r.result
	}
	return context.Cause(ctx)
}

// process does what was posted.
func (r *runner) process() {
	r.todo = append(r.todo, r.take()...)
	for len(r.todo) > 0 {
		do := r.todo[0]
		r.todo = r.todo[1:]
		do() // if it panics, abandon continues with the next
	}
}

// step does what is due.
func (r *runner) step(now time.Time) {
	if r.m != nil && r.m.ended && r.m.jobs == 0 && len(r.m.holds) == 0 {
		r.m = nil
	}
	if r.m == nil {
		r.join(now)
		return
	}
	if r.m.ended {
		return
	}
	for _, a := range r.w.Next(now) {
		r.do(a)
	}
	if r.m.quits {
		r.m.quits = false
		r.m.dropPending()
	}
	r.m.dispatch()
	r.m.retire()
	r.m.follow(r.w.Offered())
	r.measure(now)
	r.m.write(now)
	r.m.count(now)
	r.m.superviseTerm(now)
	r.m.lookForOthers(now)
}

// wake is how long until something is due, if nothing happens.
func (r *runner) wake(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) { // step has done what was due by now
			next = t
		}
	}
	switch {
	case r.m == nil && r.joining == nil && !r.leaving:
		sooner(r.joinAt)
	case r.m != nil && !r.m.ended:
		sooner(r.w.Wake(now))
		sooner(r.m.countAt)
		sooner(r.m.writeAt)
		sooner(r.m.comingAt)
		if len(r.m.pending) > 0 {
			sooner(r.m.makeAt)
		}
		sooner(r.m.othersAt)
		if r.w.Meter != nil && !r.loads.asking {
			sooner(r.loads.next)
		}
		sooner(now.Add(r.w.TTL / 4))
	}
	return max(next.Sub(now), 0)
}

// leave begins an orderly leave. The candidacy is resigned first (rule SH5).
func (r *runner) leave() {
	r.leaving = true
	if r.joining != nil {
		r.joining()
	}
	if r.m != nil && r.m.planning {
		r.m.stopPlanning() // then depart is called
		return
	}
	r.depart()
}

// depart offers what the worker has to the others. The member key shows this to them at once, whatever
// happened to earlier writes.
func (r *runner) depart() {
	r.w.Leave(time.Now())
	if r.m != nil {
		r.m.writeAt = time.Time{}
		r.m.pace.Reset()
	}
}

// fail ends Run with err, as the end of its context does.
func (r *runner) fail(err error) {
	if r.result == nil {
		r.result = err
	}
	if !r.leaving {
		r.leave()
	}
}

// fatal returns why Run ends after err, or nil if it continues.
func (r *runner) fatal(err error) error {
	if _, closed := hooks.HostOf(r.client); closed != nil {
		return closed
	}
	if errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, pawl.ErrTokenFloor) || errors.Is(err, ErrCount) {
		return err
	}
	return nil
}

// heedFatal ends Run if it cannot continue after err, the error of an acquisition.
func (r *runner) heedFatal(err error) {
	if fatal := r.fatal(err); fatal != nil && !r.leaving {
		r.fail(fatal)
	}
}

// partWait is how long Run waits for the end of its session. After that closing continues in the
// background.
const partWait = time.Second

// part ends what is left once nothing is held any more, and waits for all goroutines.
func (r *runner) part() {
	if r.m != nil {
		m := r.m
		if !m.ended { // otherwise the end was reported
			m.end()
			m.report(observe.ShardsCounted{Left: true})
		}
		for _, c := range m.carriers {
			c.done()
			c.s.CloseInBackground()
		}
		ctx, cancel := context.WithTimeout(context.Background(), partWait)
		defer cancel()
		for _, c := range m.carriers {
			_ = c.s.Close(ctx)
		}
	}
	for r.jobs > 0 {
		<-r.news
		r.process()
	}
	r.awaitLoad()
}

// abandon replaces part when Notify has panicked, or has ended Run's goroutine. It closes the session,
// because nothing else would handle what the worker has. A goroutine does what is posted until nothing
// runs any more.
func (r *runner) abandon() {
	r.opts.Notify, r.leaving = nil, true
	if r.joining != nil {
		r.joining()
	}
	m := r.m
	if m != nil {
		m.s.CloseInBackground()
		m.lost()
	}
	go func() { // ends with the last job
		for r.process(); r.jobs > 0; r.process() {
			<-r.news
		}
		if m != nil {
			for _, c := range m.carriers {
				c.done()
			}
		}
	}()
}
