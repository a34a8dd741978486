package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
)

// Request holds the options of one Acquire.
type Request struct {
	Value []byte // the value written to the key
	Try   bool   // fail with ErrBusy instead of waiting, and then write nothing

	// Handoffs lets the acquisition receive a handoff from its predecessor and give one to its
	// successor. Value must be that of a key that receives handoffs, one line, if and only if
	// Handoffs is set.
	Handoffs bool

	Limits Limits // how long the lock may be held

	// Work, unless nil, keeps the key from being deleted when it is lost while its session lasts.
	// It stands in for all work that defers the revocation of the session's lease.
	Work *session.Deferral

	// Enqueued, unless nil, is called once the key is known to be in the queue, before the wait.
	Enqueued func()

	Owner []byte // the value of the owner key, which is put together with the key; nil means no owner key
}

// Acquire enqueues a key on each of queues, all in one transaction, and waits until it is first in all
// of them. Either the acquisition or the error is nil. After an error the queue keys are deleted in the
// background. If ctx ends, Acquire returns an error, even in the instant of success. If ctx never ends,
// it waits as long as the session is valid. There is at least one queue, and no two are of one name;
// r.Handoffs is for a single one. Acquire does not change queues, and they must not be changed after it.
func Acquire(ctx context.Context, s *session.Session, r Request, queues ...Queue) (*Acquisition, error) {
	a := newAcquisition(ctx, s, queues)
	a.hasOwnerKey, a.work = r.Owner != nil, r.Work
	a.entry.Machine = state.Begin(state.Options{Handoffs: r.Handoffs, Shared: queues[0].Shared, Limit: queues[0].Limit})
	a.beginNotices(ctx)
	err := a.acquire(ctx, r)
	if err == nil {
		a.notifyWon()
		return a, nil
	}
	return nil, a.gaveUp(err)
}

// gaveUp ends an acquisition that no caller gets, because of err, and returns the error to report.
func (a *Acquisition) gaveUp(err error) error {
	if ended := a.Err(); ended != nil { // err only follows from that
		err = cause(ended)
	}
	a.apply(state.GaveUp{}, nil)
	a.releaseRest() // if it was won, and then lost a key
	err = a.explain(err)
	a.notifyGaveUp(err)
	return err
}

// newAcquisition returns an acquisition that has sent nothing yet.
func newAcquisition(ctx context.Context, s *session.Session, queues []Queue) *Acquisition {
	a := &Acquisition{s: s, queues: queues, parent: ctx, mu: s.Mutex()}
	if a.isSet() {
		a.makeSet()
	}
	if queues[0].Limit > 0 {
		a.permit = &permit{}
	}
	return a
}

// acquire registers the acquisition with the session before it sends anything, so that requests
// under way are cancelled at once when the session ends or the acquisition's key is deleted.
func (a *Acquisition) acquire(ctx context.Context, r Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.stop = cancel
	next, err := a.enter(ctx, r)
	for wait := backoff.Request(); err == nil; next = a.next() {
		switch next {
		case state.Sleep:
			if a.permit != nil && r.Try { // another took the free slot first
				return fmt.Errorf("%w: the last free slot was taken a moment ago", ErrBusy)
			}
			err = a.sleep(ctx)
		case state.Take:
			err = a.take(ctx, r.Value, &wait)
		case state.Query:
			err = a.query(ctx)
		case state.Win:
			return a.win(ctx, r.Limits)
		default: // it has ended
			if err := a.interrupted(ctx); err != nil {
				return err
			}
			return fmt.Errorf("a waiting acquisition cannot go on with step %d", next)
		}
	}
	return err
}

// sleep returns when something has happened that may end the wait.
func (a *Acquisition) sleep(ctx context.Context) error {
	a.mu.Lock()
	next := a.entry.Next()
	if a.woken == nil {
		a.woken = make(chan struct{}, 1)
	}
	woken := a.woken
	a.mu.Unlock()
	if err := a.Err(); err != nil {
		return err
	}
	if next != state.Sleep {
		return nil
	}
	select {
	case <-woken:
		return a.Err()
	case <-ctx.Done():
		return a.interrupted(ctx)
	}
}

// win makes the acquisition held after its evidence was found. It compares the clock first, and once more
// afterwards. Nothing in between waits while the acquisition is alive (rule T3). It returns nil also if the
// acquisition was held and the session was then closed: the session's Handle leaves the key to a successor,
// which learns the key's name only from the caller.
func (a *Acquisition) win(ctx context.Context, l Limits) error {
	if err := a.interrupted(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	did := a.step(state.Won{}, nil)
	held := a.entry.Phase == state.Held
	if held {
		a.s.Limit(&a.entry, l)
	}
	a.mu.Unlock()
	a.carryOut(did)
	if err := a.Err(); err != nil && !(held && errors.Is(err, lease.ErrClosed)) {
		return err // its session ended before it was won, or it ended since
	}
	return nil
}

// pause waits for d while ctx and the acquisition last.
func (a *Acquisition) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return a.Err()
	case <-ctx.Done():
		return a.interrupted(ctx)
	}
}
