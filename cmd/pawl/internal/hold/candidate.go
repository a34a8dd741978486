package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lease"
)

// candidate is a running pawl elect. Its methods are called from one goroutine.
type candidate struct {
	o           *electOptions
	client      *pawl.Client
	name, value string
	opts        lease.Options
	say         reporter
	command     *supervise.Command // nil if there is none
	sigs        *supervise.Signals
	cancel      context.CancelCauseFunc
	rest        func() // stops listening for deadly signals
	terms       int64
	limit       *time.Timer // ends the wait for the first term; nil if the wait is not limited
	waited      func()      // called at the first term; nil if nobody waits for it
	failed      error       // of the last campaign
	pause       backoff.Backoff
	rested      time.Time // it does not campaign before, because its command has stalled
	led         bool      // a signal ended a term, which is how pawl elect without a command ends
	over        bool      // the command ended by itself, in a term that was not lost
	result      error     // of the command, if over

	asked *supervise.Interrupted // the deadly signal that the command was sent; nil if there was none
}

// run campaigns and leads until a signal, or until the command ends.
func (c *candidate) run(ctx context.Context) error {
	opts := elect.RunOptions{EtcdLayout: c.o.etcd, Value: []byte(c.value), Session: c.opts, Notify: c.notify, Stall: c.stall()}
	if c.o.stall > 0 {
		opts.Eligible = func(context.Context) bool { return !time.Now().Before(c.rested) }
	}
	for {
		if err, again := c.end(ctx, elect.Run(ctx, c.client, c.name, opts, c.lead)); !again {
			return err
		}
	}
}

// end returns how pawl ends after err, or that it campaigns again.
func (c *candidate) end(ctx context.Context, err error) (_ error, again bool) {
	sig := signalIn(ctx)
	switch {
	case c.over: // a signal that came later is not why pawl ends
		return c.result, false
	case sig != nil && c.led:
		return nil, false
	case sig != nil:
		return cut(sig), false
	}
	// If the term was about to expire, the command was ended, and the term resigned.
	return cli.Reach(err), cli.WasEnded(err)
}

// tryAndRun is run for a first term that it does not wait for.
func (c *candidate) tryAndRun(ctx context.Context) error {
	if err, again := c.try(ctx); !again {
		return err
	}
	return c.run(ctx)
}

// try leads for one term, if it can be won without waiting.
func (c *candidate) try(ctx context.Context) (_ error, again bool) {
	trying, cancel := context.WithTimeout(ctx, c.o.DialTimeout)
	defer cancel()
	session, err := c.client.NewSession(trying, c.opts)
	if err != nil {
		return c.end(ctx, err)
	}
	defer c.leave(session)
	t, err := elect.New(session, c.name, elect.Options{EtcdLayout: c.o.etcd, Stall: c.stall()}).TryCampaign(trying, []byte(c.value))
	switch {
	case errors.Is(err, elect.ErrBusy):
		return c.o.refusal(c.say, c.o.Verbose, c.blocker(context.WithoutCancel(ctx))), false
	case err != nil:
		return c.end(ctx, err)
	}
	err = c.lead(ctx, t)
	if lost := c.resign(session, t); lost && signalIn(ctx) == nil {
		return nil, true
	}
	return c.end(ctx, err)
}

// resign ends a term that try won, and reports whether it was lost before.
func (c *candidate) resign(session *pawl.Session, t *elect.Term) (lost bool) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin(c.o.DialTimeout, session.Deadline()))
	defer cancel()
	err := t.Resign(ctx)
	lost = errors.Is(err, elect.ErrLost)
	kind := elect.Resigned
	if lost {
		kind = elect.Lost
	}
	c.notify(elect.Event{Kind: kind, Term: c.terms, Token: t.Token(), Err: err})
	return lost
}

// leave revokes the lease of try's session. If that is not answered, the lease expires.
func (c *candidate) leave(session *pawl.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin(c.o.DialTimeout, session.Deadline()))
	defer cancel()
	_ = session.Close(ctx)
}

// blocker is who keeps c from leading.
func (c *candidate) blocker(ctx context.Context) blocker {
	ctx, cancel := context.WithTimeout(ctx, c.o.DialTimeout)
	defer cancel()
	return blockerOf(ctx, c.client, []string{c.name}, inspect.Scope{EtcdLayout: c.o.etcd, Only: inspect.KindLock}, ofThisProcess)
}

// lead is one term.
func (c *candidate) lead(ctx context.Context, t *elect.Term) error {
	if c.limit != nil && !c.limit.Stop() && c.terms == 0 {
		return nil // it came too late, after --wait
	}
	if c.waited != nil {
		c.waited()
	}
	c.terms++
	till, id := t.Deadline(), leaseOf(t.Key())
	c.say.say(notice{
		Event: "elected", Name: c.name, Key: t.Key(), Token: t.Token(), Term: c.terms, Value: c.value,
		Lease: id, TTL: cmp.Or(c.opts.TTL, lease.DefaultTTL).Seconds(), Deadline: &till,
	})
	if c.command == nil {
		select {
		case <-ctx.Done(): // a signal
		case <-t.Done(): // the loss
		}
		c.led = t.Err() == nil
		return nil
	}
	c.rest() // signals are the command's now
	defer func() { c.rest = c.sigs.Listen(c.cancel) }()
	if ctx.Err() != nil { // at the moment of the election
		return nil
	}
	cli.Stderr.Await(cli.NoticeGrace)
	c.command.Env = environ([]string{c.name}, []string{t.Key()}, t, id)
	c.command.Heard = func(sig supervise.Signal) {
		if sig.Deadly() && sig.Number != unix.SIGHUP { // which means "read your configuration" to many
			c.asked = &supervise.Interrupted{Signal: sig.Number}
		}
	}
	began := time.Now()
	p := c.o.watchProgress(c.command.Argv[0], t.Progress)
	c.command.Stops = p.whileStopped()
	err := commandEnd(c.command.Run(holding{t}))
	p.ended()
	err = p.stalls(err, supervise.Notice(c.command.Grace), t.Session().Deadline())
	c.ended(err)
	c.rests(err, time.Since(began))
	return err
}

// stall is the Stall of each term.
func (c *candidate) stall() time.Duration {
	if c.command == nil {
		return 0
	}
	return c.o.stallOf(c.command.Grace)
}

// The bounds of the wait before the next campaign of a candidate whose command has stalled.
const (
	firstRest = 10 * time.Second
	mostRest  = 10 * time.Minute
)

// rests has a candidate whose command has stalled, after it ran for a while, wait before it campaigns again: longer
// each time, until a term lasts for longer than the longest wait, or ends otherwise.
func (c *candidate) rests(err error, ran time.Duration) {
	if ran > mostRest || cli.CodeOf(err) != cli.ExitStalled {
		c.pause.Reset()
	}
	if cli.CodeOf(err) != cli.ExitStalled || c.over || c.asked != nil {
		return
	}
	wait := c.pause.Next()
	c.rested = time.Now().Add(wait)
	n := notice{Event: "stalled", Name: c.name, Term: c.terms, Cause: fmt.Sprintf("%v; it campaigns again in %v", err, wait.Round(time.Second))}
	if c.say.w == nil {
		fmt.Fprintf(cli.Stderr, "pawl: %s\n", n.text())
		return
	}
	c.say.say(n)
}

// ended records how the command ended.
func (c *candidate) ended(err error) {
	errors.As(err, &c.asked) // a signal that came before the command was started
	if c.over, c.result = true, err; cli.WasEnded(err) {
		c.lost()
	}
}

// lost records that the term was lost before the command's end could end it: pawl campaigns again,
// unless the command was sent a deadly signal, which ends the candidacy too.
func (c *candidate) lost() {
	c.over = false
	if c.asked != nil {
		c.cancel(c.asked)
	}
}

func (c *candidate) notify(ev elect.Event) {
	n := notice{Event: ev.Kind.String(), Name: c.name, Token: ev.Token, Term: c.terms, Time: time.Now()}
	if ev.Err != nil {
		n.Cause = ev.Err.Error()
	}
	switch ev.Kind {
	case elect.Retrying:
		c.failed = ev.Err
	case elect.Lost:
		c.lost()
	}
	switch {
	case ev.Kind == elect.Elected: // lead says it, with more
	case ev.Kind == elect.Retrying && !c.say.json:
		fmt.Fprintf(cli.Stderr, "pawl: %s\n", n.text())
	default:
		c.say.say(n)
	}
}

// leaseOf is the lease in one of our keys: "…/<lease in hex>-<n>", and in etcd's layout without
// n.
func leaseOf(key string) string {
	id, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	return id
}
