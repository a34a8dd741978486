package elect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/session"
)

// Run leads again and again: it makes a session, campaigns, calls lead, and
// after every loss does so again with a new session, until ctx ends or lead
// returns during its term.
//
// lead's ctx is a child of Run's, carries the token, and is cancelled with the
// cause at loss. lead is to return then. It is called in Run's own goroutine,
// once for each term that was won, and never again before it has returned. What
// it returns after a loss is dropped, and Run goes on. When it returns during
// its term, Run resigns, and returns what it returned, nil or error. When ctx
// ends, Run waits for lead, resigns, and returns ctx's cause. A panic in lead
// resigns and goes on up.
//
// The lease is never given up while lead runs, not even after a loss: nobody
// else is elected before it has ended by itself at the server, or was ended by
// somebody else. A lead that outlives its context by more than Overrun has its
// Term marked lost, and then its lease is not renewed any more; Run still waits
// for it.
//
// A failure of sessions or campaigns is retried, for ever, after a jittered
// wait, and reported to Notify. Run returns the error instead when it matches
// pawl.ErrClusterChanged or pawl.ErrTokenFloor, when the client is closed
// (lease.ErrClosed), and when an argument is bad, as a Value that is larger than
// the cluster takes. With StopInJeopardy, lead's context also ends before a loss is
// certain. It returns within 100 ms of ctx's end and lead's return,
// whichever is later.
func Run(ctx context.Context, c *pawl.Client, name string, opts RunOptions, lead func(ctx context.Context, t *Term) error) error {
	r := &runner{client: c, name: name, opts: opts, lead: lead}
	if err := r.check(ctx); err != nil {
		return failed("run", name, ctx, err)
	}
	lo, hi := opts.backoffs()
	r.backoff = backoff.Backoff{First: lo, Most: hi}
	for {
		o := r.round(ctx)
		switch {
		case o.done:
			return o.result
		case ctx.Err() != nil:
			return failed("run", name, ctx, context.Cause(ctx))
		case r.fatal(o.err) != nil:
			return failed("run", name, ctx, r.fatal(o.err))
		case o.led:
			r.backoff.Reset()
			r.backoff.Sleep(ctx)
		case o.err != nil:
			r.notify(Event{Kind: Retrying, Term: r.term, Token: r.token, Err: o.err})
			r.backoff.Sleep(ctx)
		default: // Eligible said no
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
	token   fencing.Token // of the last one
	backoff backoff.Backoff
}

func (r *runner) check(ctx context.Context) error {
	if r.lead == nil {
		return errors.New("nil lead")
	}
	if err := r.opts.check(); err != nil {
		return err
	}
	_, err := newReader(ctx, r.client, r.name, Options{EtcdLayout: r.opts.EtcdLayout})
	return err
}

// fatal is why Run does not go on after err; nil: it does.
func (r *runner) fatal(err error) error {
	if _, closed := inside.HostOf(r.client); closed != nil {
		return closed
	}
	if errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, pawl.ErrTokenFloor) || cluster.IsTooLarge(err) {
		return err
	}
	return nil
}

func (r *runner) notify(ev Event) {
	if r.opts.Notify != nil {
		r.opts.Notify(ev)
	}
}

// outcome is what one round came to.
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
	session, err := r.client.NewSession(ctx, r.opts.Session)
	if err != nil {
		return outcome{err: err}
	}
	defer r.leave(ctx, session) // also while a panic goes up
	t, err := New(session, r.name, Options{EtcdLayout: r.opts.EtcdLayout}).Campaign(ctx, r.opts.Value)
	if err != nil {
		return outcome{err: err}
	}
	return r.reign(ctx, inside.SessionOf(session), t)
}

// leaveWait is how long a session is waited for to be given back; what takes
// longer goes on in the background.
const leaveWait = time.Second

// leave gives the session of a round back. When Run's own ctx has ended, its
// time has been spent on the resignation, so it does not wait.
func (r *runner) leave(ctx context.Context, s *pawl.Session) {
	engine := inside.SessionOf(s)
	engine.CloseInBackground()
	<-engine.Stopped()
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	_ = s.Close(ctx)
}

// reign calls lead during t, and says what became of it.
func (r *runner) reign(ctx context.Context, s *session.Session, t *Term) (o outcome) {
	r.term++
	r.token = t.Token()
	r.notify(Event{Kind: Elected, Term: r.term, Token: r.token})
	release := s.DeferRevocation() // before the last call of Err, so that there is no gap
	defer release()
	var result, end error
	stopped := true                    // lead has not returned before Run's ctx has ended
	defer func() { r.ended(t, end) }() // also while a panic goes up
	var jeopardy error
	end = t.c.Do(ctx, ErrResigned, func(work context.Context) error {
		defer release()
		work, watched := r.watchOver(work, s, t)
		defer watched()
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
	case jeopardy != nil:
		if end != nil {
			jeopardy = fmt.Errorf("%w; %w", jeopardy, end)
		}
		end = jeopardy
		return outcome{led: true, err: end}
	}
	return outcome{done: true, result: result}
}

// ended reports a term's end; err is what came of giving it back.
func (r *runner) ended(t *Term, err error) {
	ev := Event{Kind: Resigned, Term: r.term, Token: r.token, Err: err}
	if err := t.Err(); errors.Is(err, ErrLost) {
		ev.Kind, ev.Err = Lost, err
	}
	r.notify(ev)
}
