package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/lock"
)

// contenders are the contenders of the first part.
var contenders = []string{"ann", "ben", "cleo", "dan", "eve"}

const (
	demoRounds = 3
	demoThink  = 40 * time.Millisecond
)

// queue runs the first part. All contenders queue after the demo itself, in a known order, and then
// take turns. It returns what was shown.
func (d *demo) queue(ctx context.Context) (shown string, err error) {
	const name = "counter"
	d.print("\n1. %d contenders read a counter, think, and write it back plus one, %d times each.", len(contenders), demoRounds)
	session, err := d.client.Session(ctx)
	if err != nil {
		return "", err
	}
	held, err := lock.New(session, name, lock.Options{}).Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer held.Release(ctx)
	d.line(time.Now(), "demo", held.Token(), "holds the lock %q until all have queued", name)
	var workers []*worker
	for i, who := range contenders {
		w, err := d.hire(who, name, "--rounds", strconv.Itoa(demoRounds), "--work", demoThink.String())
		if err != nil {
			return "", err
		}
		workers = append(workers, w)
		queues, err := d.queued(ctx, name, int64(i+2), w)
		if err != nil {
			return "", err
		}
		if queues {
			d.line(time.Now(), who, 0, "queues at place %d, process %d", i+1, w.cmd.Process.Pid)
		}
	}
	if err := held.Release(ctx); err != nil {
		return "", err
	}
	d.line(time.Now(), "demo", held.Token(), "releases")
	for range demoRounds {
		for _, w := range workers { // first come, first served: this is the order
			if err := d.increment(ctx, w); err != nil {
				return "", err
			}
		}
	}
	for _, w := range workers {
		if err := w.finish(ctx); err != nil {
			return "", err
		}
	}
	log, value, err := d.store.history(ctx)
	if err == nil {
		err = checkQueue(log, value, contenders, demoRounds)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("  - %d processes took turns in the order they came: %s.\n  - %d increments were made and %d arrived; every token was above the one before.\n",
		len(contenders), strings.Join(contenders, ", "), len(log), value), nil
}

// increment shows one read-modify-write of w.
func (d *demo) increment(ctx context.Context, w *worker) error {
	if _, err := w.next(ctx, "holds"); err != nil {
		return err
	}
	if _, err := w.next(ctx, "read"); err != nil {
		return err
	}
	f, err := w.next(ctx, "wrote")
	if err != nil {
		return err
	}
	d.line(f.At, w.name, f.Token, "read %d, wrote %d", f.Was, f.Became)
	return nil
}

// The second part's lock, its first holder and the next one.
const report, fay, gus = "report", "fay", "gus"

// stopped runs the second part.
func (d *demo) stopped(ctx context.Context) (shown string, err error) {
	d.print("\n2. A holder is stopped (SIGSTOP) in the middle of its work, for longer than its TTL of %v.", demoTTL)
	p, err := d.pause(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("  - a holder stopped for %.1f s lost its lock; the next one came %.1f s after the stop, and not before the first one's deadline.\n"+
		"  - waking, the first one found at its first check that it had lost, and the store refused its late write:\n    token %d is below %d. The counter holds what the second one wrote.\n",
		p.continued.Sub(p.stopped).Seconds(), p.second.At.Sub(p.stopped).Seconds(), p.first.Token, p.second.Token), nil
}

// pause stops the first holder, lets the next one take over, wakes the first, and checks what happened.
func (d *demo) pause(ctx context.Context) (p paused, err error) {
	before, _, err := d.store.history(ctx)
	if err != nil {
		return p, err
	}
	p.ttl = demoTTL
	first, err := d.hire(fay, report, "--ttl", demoTTL.String(), "--careless")
	if err != nil {
		return p, err
	}
	if _, err = first.next(ctx, "holds"); err != nil {
		return p, err
	}
	if p.first, err = first.next(ctx, "read"); err != nil {
		return p, err
	}
	d.line(p.first.At, fay, p.first.Token, "holds %q until %s unless renewed, read %d, works on it", report, p.first.Deadline.Local().Format(cli.ClockTime), p.first.Was)
	if err := first.stop(ctx); err != nil {
		return p, err
	}
	p.stopped = time.Now()
	d.line(p.stopped, fay, 0, "is stopped: process %d neither works nor renews", first.cmd.Process.Pid)
	second, err := d.takeOver(ctx, &p)
	if err != nil {
		return p, err
	}
	if err := sleepUntil(ctx, p.stopped.Add(demoTTL+250*time.Millisecond)); err != nil {
		return p, err
	}
	if err := d.wake(ctx, first, &p); err != nil {
		return p, err
	}
	for _, w := range []*worker{first, second} {
		if err := w.finish(ctx); err != nil {
			return p, err
		}
	}
	if p.logged, p.value, err = d.store.history(ctx); err != nil {
		return p, err
	}
	p.logged = p.logged[len(before):]
	return p, checkPaused(p)
}

// takeOver lets the next contender queue, take over and write.
func (d *demo) takeOver(ctx context.Context, p *paused) (*worker, error) {
	second, err := d.hire(gus, report)
	if err != nil {
		return nil, err
	}
	queues, err := d.queued(ctx, report, 2, second)
	if err != nil {
		return nil, err
	}
	if queues {
		d.line(time.Now(), gus, 0, "queues behind")
	}
	if p.second, err = second.next(ctx, "holds"); err != nil {
		return nil, err
	}
	d.line(p.second.At, gus, p.second.Token, "takes over: the lease of %s has expired", fay)
	if _, err = second.next(ctx, "read"); err != nil {
		return nil, err
	}
	if p.secondWrote, err = second.next(ctx, "wrote"); err != nil {
		return nil, err
	}
	d.line(p.secondWrote.At, gus, p.secondWrote.Token, "read %d, wrote %d, releases", p.secondWrote.Was, p.secondWrote.Became)
	return second, nil
}

// wake lets the first holder continue, and reads its first check and its write.
func (d *demo) wake(ctx context.Context, first *worker, p *paused) (err error) {
	p.continued = time.Now()
	if err := first.goOn(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	d.line(p.continued, fay, 0, "goes on (SIGCONT), after %.1f s", p.continued.Sub(p.stopped).Seconds())
	first.ask()
	if p.woke, err = first.next(ctx, "woke"); err != nil {
		return err
	}
	d.line(p.woke.At, fay, p.woke.Token, "checks: %s", p.woke.Err)
	if p.refused, err = first.next(ctx, "refused"); err != nil {
		return err
	}
	d.line(p.refused.At, fay, p.refused.Token, "writes all the same, as a program that does not check would")
	d.line(p.refused.At, "store", p.refused.Highest, "refuses: %s", p.refused.Err)
	return nil
}

// sleepUntil waits until t, or returns why ctx ended.
func sleepUntil(ctx context.Context, t time.Time) error {
	if !backoff.Sleep(ctx, time.Until(t)) {
		return context.Cause(ctx)
	}
	return nil
}
