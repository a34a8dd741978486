package elect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/failing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Run leads again and again: it makes a session, campaigns, calls lead, and after every loss does
// so again with a new session, until ctx ends or lead returns during its term.
//
// lead's ctx is a child of Run's, carries the token, and is cancelled with the cause at loss; lead
// then has to return. lead is called in the goroutine that called Run, once for each term that was
// won, and never before the previous call has returned. What it returns after a loss is dropped,
// and Run continues. When it returns during its term, Run resigns, and returns lead's result, nil
// or error. When ctx ends, Run waits for lead, resigns, and returns ctx's cause. If lead panics,
// Run resigns and the panic continues.
//
// The lease is never given up while lead runs, not even after a loss: nobody else is elected before
// the lease has expired at the server, or somebody else has ended it. Only a term that was lost with
// ErrStalled is free at once. If lead runs for more than
// Overrun after its context's end, its Term is marked lost, and the lease is no longer renewed; Run
// still waits for lead.
//
// Run retries a failure of sessions or campaigns for ever, each after a jittered wait, and reports
// it to Notify. The client's logger gets a warning when a failure begins and one when it ends, and if it
// has not ended, the text of Run's error contains it. If the cluster did not serve, its return ends the wait within about a second. Run
// returns the error instead when it matches pawl.ErrClusterChanged or pawl.ErrTokenFloor, when the
// client is closed (lease.ErrClosed), and when an argument is invalid, such as a Value that is
// larger than the cluster accepts. With StopInJeopardy, lead's context also ends before a loss is
// certain. Run returns within 100 ms of ctx's end and lead's return, whichever is later.
func Run(ctx context.Context, c *pawl.Client, name string, opts RunOptions, lead func(ctx context.Context, t *Term) error) error {
	r := &runner{client: c, name: name, opts: opts, lead: lead}
	if err := r.check(ctx); err != nil {
		return failed("run", name, ctx, err)
	}
	lo, hi := opts.backoffs()
	r.backoff = backoff.Backoff{First: lo, Most: hi}
	for {
		o := r.round(ctx)
		switch end := failing.Ended(ctx); {
		case o.done:
			return o.result
		case end != nil:
			return failed("run", name, ctx, r.failures.With(end))
		case r.fatal(o.err) != nil:
			return failed("run", name, ctx, r.fatal(o.err))
		case o.led:
			r.backoff.Reset()
			r.answered = false
			r.backoff.Sleep(ctx)
		case o.err != nil:
			r.failed(o.err)
			r.notify(Event{Kind: Retrying, Term: r.term, Token: r.token, Err: o.err})
			r.pause(ctx, o.err)
		default: // Eligible returned false
			backoff.Sleep(ctx, backoff.Jitter(lo))
		}
	}
}

// A runner is one call of Run. Only the goroutine that called Run uses it.
type runner struct {
	client  *pawl.Client
	name    string
	opts    RunOptions
	lead    func(ctx context.Context, t *Term) error
	term    int64         // terms so far
	token   fencing.Token // the token of the last term
	backoff backoff.Backoff

	answered bool // the last pause ended because the cluster answered, and it had answered throughout

	failures *failing.Report
	denied   bool // the last try was not permitted
}

func (r *runner) check(ctx context.Context) error {
	if r.lead == nil {
		return errors.New("nil lead")
	}
	if err := r.opts.check(); err != nil {
		return err
	}
	read, err := r.reader(ctx)
	if err == nil {
		r.failures = failing.New(read.host.Cluster.Logger(), "election", "name", r.name)
	}
	return err
}

func (r *runner) reader(ctx context.Context) (*reader, error) {
	return newReader(ctx, r.client, r.name, Options{EtcdLayout: r.opts.EtcdLayout})
}

// failed reports to the log that a session or a campaign failed.
func (r *runner) failed(err error) {
	kind := "cluster"
	if r.denied = cluster.IsPermissionDenied(err); r.denied {
		kind = "permission"
	}
	r.failures.Failed(kind, err)
}

// works reports to the log that a campaign has succeeded, or waits.
func (r *runner) works() {
	r.denied = false
	r.failures.Works()
}

// permitted asks, after a try that was not permitted, whether another one would be.
func (r *runner) permitted(ctx context.Context) error {
	if !r.denied {
		return nil
	}
	read, err := r.reader(ctx)
	if err != nil {
		return err
	}
	return session.Permitted(ctx, read.host, read.queue.Prefix)
}

// fatal returns why Run ends after err, or nil if it continues.
func (r *runner) fatal(err error) error {
	if _, closed := hooks.HostOf(r.client); closed != nil {
		return closed
	}
	if errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, pawl.ErrTokenFloor) || cluster.IsTooLarge(err) {
		return err
	}
	return nil
}

const (
	queryEvery   = time.Second // how often, at most, a pause queries whether the cluster is back
	returnJitter = time.Second // spreads those who waited for it
)

// pause waits after err. If the cluster had not served, its return ends the wait, at most
// returnJitter later, and the next wait is the shortest again.
func (r *runner) pause(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.backoff.Next())
	defer cancel()
	if cluster.IsFinal(err) {
		<-ctx.Done()
		return
	}
	for missed := false; ; missed = true {
		asked := time.Now()
		if r.serves(ctx) {
			if missed || !r.answered {
				r.answered = !missed
				r.backoff.Reset()
				backoff.Sleep(ctx, rand.N(returnJitter))
				return
			}
			<-ctx.Done() // it has served all the time
			return
		}
		if !backoff.Sleep(ctx, backoff.Spread(queryEvery)-time.Since(asked)) {
			return
		}
	}
}

// serves reports whether the cluster answers a linearizable read; a refusal is an answer too.
func (r *runner) serves(ctx context.Context) bool {
	q, err := r.reader(ctx)
	if err != nil {
		return false
	}
	_, err = q.host.Cluster.Txn(ctx, cluster.Request{Op: "ask whether the cluster serves", PerTry: queryEvery, Total: queryEvery},
		&pb.TxnRequest{Success: []*pb.RequestOp{txn.Stat(q.queue.Prefix)}})
	return err == nil || cluster.IsFinal(err)
}

func (r *runner) notify(ev Event) {
	if r.opts.Notify != nil {
		r.opts.Notify(ev)
	}
}

// outcome is the result of one round.
type outcome struct {
	led    bool  // a term was won
	err    error // what failed, or the loss
	done   bool  // Run returns result
	result error
}

// round calls Eligible, makes a session, campaigns and leads.
func (r *runner) round(ctx context.Context) (o outcome) {
	if r.opts.Eligible != nil && !r.opts.Eligible(ctx) || ctx.Err() != nil {
		return outcome{}
	}
	if err := r.permitted(ctx); err != nil {
		return outcome{err: err}
	}
	session, err := r.client.NewSession(ctx, r.opts.Session)
	if err != nil {
		return outcome{err: err}
	}
	defer r.leave(ctx, session) // also if lead or Eligible panics
	e := New(session, r.name, Options{EtcdLayout: r.opts.EtcdLayout})
	e.says = r.opts.Stall // which counts from lead's beginning
	t, err := r.campaign(ctx, e)
	if t == nil {
		return outcome{err: err}
	}
	r.works()
	return r.reign(ctx, hooks.SessionOf(session), t)
}

// leaveWait is how long Run waits for a session to be closed; after that closing continues in
// the background.
const leaveWait = time.Second

// leave closes the session of a round. If Run's ctx has ended, the time left after it was spent
// on the resignation, so leave does not wait.
func (r *runner) leave(ctx context.Context, s *pawl.Session) {
	hooks.SessionOf(s).CloseInBackground()
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	_ = s.Close(ctx)
}

// reign calls lead during t, and returns the outcome.
func (r *runner) reign(ctx context.Context, s *session.Session, t *Term) (o outcome) {
	r.term++
	r.token = t.Token()
	r.notify(Event{Kind: Elected, Term: r.term, Token: r.token})
	release := s.DeferRevocation() // before the last call of Err, so that no loss can come between
	defer release()
	var result, end error
	called, stopped := false, true     // stopped unless lead returned before Run's ctx ended
	defer func() { r.ended(t, end) }() // also if lead panics
	var jeopardy error
	end = t.a.DoNaming(ctx, ErrResigned, r.lead, func(work context.Context) error {
		called = true
		defer release()
		work, watched := r.watchOver(work, s, t, release)
		defer watched()
		if r.opts.Stall > 0 {
			t.a.BoundStall(r.opts.Stall)
		}
		result = r.lead(work, t)
		stopped = ctx.Err() != nil
		if errors.Is(context.Cause(work), ErrJeopardy) {
			jeopardy = ErrJeopardy
		}
		return nil
	})
	switch {
	case stopped && ctx.Err() != nil:
		return outcome{done: true, result: failed("run", r.name, ctx, context.Cause(ctx))}
	case errors.Is(end, ErrLost):
		return outcome{led: true, err: end}
	case !called: // a deadline has passed of which ctx does not know yet
		return outcome{done: true, result: failed("run", r.name, ctx, end)}
	case jeopardy != nil:
		if end != nil {
			jeopardy = fmt.Errorf("%w; %w", jeopardy, end)
		}
		end = jeopardy
		return outcome{led: true, err: end}
	}
	return outcome{done: true, result: result}
}

// ended reports a term's end; err is the result of resigning.
func (r *runner) ended(t *Term, err error) {
	ev := Event{Kind: Resigned, Term: r.term, Token: r.token, Err: err}
	if err := t.Err(); errors.Is(err, ErrLost) {
		ev.Kind, ev.Err = Lost, err
	}
	r.notify(ev)
}
