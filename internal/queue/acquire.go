package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// Request says what Acquire is to do.
type Request struct {
	Value []byte        // of the key
	Try   bool          // fail with ErrBusy rather than wait; write nothing then
	Delay time.Duration // how long to wait after a holder that did not release

	// Grants lets the claim be granted the line by the one before it, and grant it
	// to the one behind. Value begins with keys.LockMark then, and only then, and
	// has one line.
	Grants bool
}

// Acquire enqueues a key on line and waits until it is first. Either the claim
// or the error is nil. After an error nothing of the attempt stays queued: what
// cannot be removed at once is removed behind the caller. A ctx that ends means
// an error, even in the instant of success.
func Acquire(ctx context.Context, s *session.Session, line Line, r Request) (*Claim, error) {
	c := &Claim{s: s, line: line, parent: ctx, grants: r.Grants}
	c.see(ctx)
	err := c.acquire(ctx, r)
	if err == nil {
		c.tellWon(c.how)
		return c, nil
	}
	if over := c.Err(); over != nil { // it is what the trouble came from
		err = cause(over)
	}
	c.abandon()
	err = line.explain(err, s.Host().Namespace)
	c.tellGaveUp(err)
	return nil, err
}

// acquire hangs the claim on the session from the beginning, so that whatever is
// under way ends at once when the session does, or, later, the own key.
func (c *Claim) acquire(ctx context.Context, r Request) error {
	ctx, cancel := context.WithCancel(ctx)
	c.scope = cancel
	defer c.unscope(cancel)
	if err := c.s.Wait(&c.hook, c); err != nil {
		return err
	}
	if r.Try {
		if err := c.peek(ctx); err != nil {
			return err
		}
	}
	alone, err := c.enqueue(ctx, r.Value, r.Try)
	if err != nil {
		return err
	}
	c.tellEnqueued()
	if floor := c.s.Host().Floor; c.Token() <= floor {
		return fmt.Errorf("%w: %d, the floor is %d", pawl.ErrTokenFloor, c.Token(), floor)
	}
	if !alone {
		if err := c.wait(ctx, r.Delay); err != nil {
			return err
		}
	}
	return c.win(ctx)
}

// unscope ends what Acquire was doing.
func (c *Claim) unscope(cancel context.CancelFunc) {
	c.mu.Lock()
	c.scope = nil
	c.mu.Unlock()
	cancel()
}

// wait returns nil when a linearizable answer showed the own key first.
func (c *Claim) wait(ctx context.Context, delay time.Duration) error {
	var last departed // what was waited for before the line was empty
	for {
		if granted, err := c.sleep(ctx); granted || err != nil {
			return err
		}
		first, unclean, err := c.ask(ctx, &last, delay > 0)
		if err != nil {
			return err
		}
		switch {
		case first && unclean && delay > 0:
			if err := c.linger(ctx, delay); err != nil {
				return err
			}
			delay = 0 // asked once more, for the time has gone by
		case first:
			return nil
		}
	}
}

// sleep returns when the key before may be gone, or has granted the line.
func (c *Claim) sleep(ctx context.Context) (granted bool, err error) {
	var late <-chan time.Time // a grant that was expected does not come
	for {
		c.mu.Lock()
		granted = c.mine
		passed := c.passed || c.before.key == ""
		expected := c.expected
		c.mu.Unlock()
		if err := c.Err(); err != nil {
			return false, err
		}
		if granted || passed && !expected {
			return granted, nil
		}
		if passed && late == nil {
			t := time.NewTimer(grantWait)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-c.woken:
		case <-late:
			return false, nil
		case <-ctx.Done():
			return false, c.over(ctx)
		}
	}
}

// linger waits for d while ctx and the claim last.
func (c *Claim) linger(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return c.Err()
	case <-ctx.Done():
		return c.over(ctx)
	}
}

// The bounds of the pause between two requests that are repeated.
const (
	minPause = 25 * time.Millisecond
	maxPause = time.Second
)

// jitter is half to all of pause.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// departed is a key that was waited for, and the revision of its deletion; 0: not known.
type departed struct {
	place
	at int64
}

// ask asks, in one transaction, whether the own key is first (rule A2), and
// goes on asking while the cluster cannot be reached, the session is valid and
// ctx lasts. Where another is before, that one is followed from now on. unclean
// says that what was waited for last went without a release, which is asked
// for only if delayed.
func (c *Claim) ask(ctx context.Context, last *departed, delayed bool) (first, unclean bool, err error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		c.mu.Lock()
		if c.before.key != "" {
			*last = departed{c.before, c.goneAt}
		}
		c.mu.Unlock()
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "confirm place", Repeat: cluster.Always}, c.askTxn(*last, delayed))
		switch {
		case err == nil && resp.Header.Revision < c.create:
			err = fmt.Errorf("answered at revision %d, before the own key's %d", resp.Header.Revision, c.create)
		case err == nil && !resp.Succeeded:
			return false, false, c.dismissed(resp)
		case err == nil:
			if kv := txn.KV(resp, 0); kv != nil {
				c.follow(place{string(kv.Key), kv.CreateRevision}, resp.Header.Revision)
				return false, false, nil
			}
			if c.grants {
				c.mu.Lock()
				c.heirs = c.line.heirs(txn.KVs(resp, len(resp.Responses)-1))
				c.mu.Unlock()
			}
			return true, delayed && last.key != "" && !c.wentClean(*last, resp), nil
		}
		if ctx.Err() != nil || cluster.IsPermissionDenied(err) {
			return false, false, err
		}
		if cluster.IsCompacted(err) && last.at > 0 {
			c.forgetWhenGone()
			last.at = 0 // as it is now, which is no better than that
			continue
		}
		if err := c.linger(ctx, jitter(pause)); err != nil {
			return false, false, err
		}
	}
}

// askTxn is the transaction that decides who owns the line: if the own key and
// the session key are as we know them, the last-created key before the own.
func (c *Claim) askTxn(last departed, delayed bool) *pb.TxnRequest {
	session, mod := c.s.Key()
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(c.key, c.create), txn.ModIs(session, mod)},
		Success: []*pb.RequestOp{txn.LastUnder(c.line.Prefix, 1, c.create-1)},
		Failure: []*pb.RequestOp{txn.Look(session), txn.Look(c.key)},
	}
	if owner, ok := c.line.owner(last.key); delayed && ok {
		t.Success = append(t.Success, txn.LookAt(keys.SessionKey(c.s.Host().Namespace, owner), last.at))
	}
	if c.grants {
		t.Success = append(t.Success, txn.NextUnder(c.line.Prefix, keys.MaxSuccessors, c.create+1))
	}
	return t
}

// forgetWhenGone forgets at which revision the key before was deleted.
func (c *Claim) forgetWhenGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goneAt = 0
}

// wentClean reports whether last, which is gone, went by a release as far as resp,
// a delayed askTxn's answer, can tell: at the revision of its deletion a holder that
// released had its session key still, and one whose lease ended had lost both (F16).
// Of a key that is not pawl's nothing is known.
func (c *Claim) wentClean(last departed, resp *pb.TxnResponse) bool {
	_, ok := c.line.owner(last.key)
	return ok && txn.KV(resp, 1) != nil
}

// dismissed ends the claim whose own key, or session key, was not as we know it.
func (c *Claim) dismissed(resp *pb.TxnResponse) error {
	if err := c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision); err != nil {
		return c.Err()
	}
	c.finish(&detail{ErrKeyDeleted, fmt.Sprintf("%q at revision %d", c.key, resp.Header.Revision)})
	return c.Err()
}

// win makes the claim held, after the answer that showed it first. The clock is
// looked at last (rule T3).
func (c *Claim) win(ctx context.Context) error {
	if ctx.Err() != nil {
		return c.over(ctx)
	}
	c.mu.Lock()
	c.before = place{}
	ahead := c.ahead.w
	c.ahead = feed{}
	c.held = c.fate.Load() == nil
	watched := c.own.w != nil
	c.mu.Unlock()
	if ahead != nil {
		ahead.Cancel()
	}
	if err := c.s.Hold(&c.hook, c, c.n); err != nil {
		return err
	}
	if err := c.Err(); err != nil {
		c.s.Drop(&c.hook) // it may have been over before Hold put it there
		if c.held && errors.Is(err, lease.ErrClosed) {
			// It was held when the session ended: a Handle leaves its key to
			// a successor, whom only the caller can tell the key's name.
			return nil
		}
		return err
	}
	if !watched {
		c.s.ArmLater(&c.hook)
	}
	return nil
}

// abandon has what may be left of a failed attempt removed.
func (c *Claim) abandon() {
	f := c.mark()
	if f != nil {
		f.decide(context.Canceled) // nobody has seen this claim
	}
	if c.create != 0 {
		c.s.Leave(c.n)
	}
}
