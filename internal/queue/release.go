package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// release is how far giving a claim back has come; guarded by the claim's mutex.
// One goroutine at a time sends: so a failed comparison means a loss, unless a
// delete was sent before it whose answer was lost.
type release struct {
	begun   bool
	sending bool
	tried   bool          // the first request was sent: later ones grant nothing
	turn    chan struct{} // closed when sending ends; made by whoever waits for it
	missed  bool          // the key was not there, and no delete can have been applied: it was lost
	doubt   bool          // a delete may have been applied whose answer was lost
	behind  bool          // it goes on behind the caller
	decided bool
	err     error // once decided
}

// Release stops calling it held, with as for Err from then on, and deletes the
// key. nil: it was held until now. An error that matches ErrLost: it was not.
// One that matches kv.ErrUnknown: unconfirmed, it goes on behind the caller;
// called again, it tries again, and once decided gives the same answer. With a
// ctx that is done it still sends, and waits no longer than cluster.Grace.
func (c *Claim) Release(ctx context.Context, as error) error {
	if err := c.letGo(as); err != nil {
		return err
	}
	if decided, err := c.outcome(); decided {
		return err
	}
	graced, cancel := cluster.WithGrace(ctx)
	defer cancel()
	err := c.free(graced)
	if decided, err := c.outcome(); decided {
		c.tellReleased(nil)
		return err
	}
	c.freeBehind()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", cluster.EndOf(ctx), err)
	}
	err = fmt.Errorf("%w: the release is pending: %w", cluster.ErrUnknown, err)
	c.tellReleased(err)
	return err
}

// letGo makes the claim released, or says why it was lost before.
func (c *Claim) letGo(as error) error {
	if c.isBegun() {
		return nil
	}
	if err := c.Err(); err != nil && !c.isBegun() {
		return err
	}
	// Until the release is decided, a Handle tells the session's next process to
	// remove the key.
	c.s.Reopen(c.n, c.key)
	c.mu.Lock()
	if c.fate.Load() == nil {
		f := c.released(as)
		c.fate.Store(f)
		c.freeing.begun = true
		c.mu.Unlock()
		c.told(f)
		return nil
	}
	begun := c.freeing.begun
	c.mu.Unlock()
	if begun {
		return nil
	}
	return c.Err()
}

func (c *Claim) isBegun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeing.begun
}

// outcome is the release's answer, once it is decided.
func (c *Claim) outcome() (decided bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeing.decided, c.freeing.err
}

// free tries to delete the key until that is decided, an error shows that it
// cannot be for now, or ctx ends. Who else calls it meanwhile waits.
func (c *Claim) free(ctx context.Context) error {
	if err := c.takeTurn(ctx); err != nil {
		return err
	}
	defer c.endTurn()
	if decided, _ := c.outcome(); decided {
		return nil
	}
	repeat := cluster.IfNotApplied // so that a lost answer is noticed
	for {
		grant := c.mayGrant()
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, c.freeTxn(grant))
		switch {
		case err == nil && resp.Succeeded:
			c.decideFree(c.foundAs(txn.Deleted(resp, 0)))
			return nil
		case grant && (err == nil || cluster.OutcomeOf(err) != cluster.Unknown && ctx.Err() == nil):
			continue // what refused the grant may let the delete pass
		case err == nil:
			return c.explainFree(ctx)
		case cluster.OutcomeOf(err) != cluster.Unknown:
			return err
		}
		c.doubt()
		if repeat == cluster.Always || ctx.Err() != nil {
			return err
		}
		repeat = cluster.Always
	}
}

// takeTurn waits until nobody sends.
func (c *Claim) takeTurn(ctx context.Context) error {
	for {
		c.mu.Lock()
		if !c.freeing.sending {
			c.freeing.sending = true
			c.mu.Unlock()
			return nil
		}
		if c.freeing.turn == nil {
			c.freeing.turn = make(chan struct{})
		}
		turn := c.freeing.turn
		c.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return cluster.EndOf(ctx)
		}
	}
}

func (c *Claim) endTurn() {
	c.mu.Lock()
	turn := c.freeing.turn
	c.freeing.sending, c.freeing.turn = false, nil
	c.mu.Unlock()
	if turn != nil {
		close(turn)
	}
}

// doubt notes that a delete may have been applied, unless the key was missed
// before.
func (c *Claim) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeing.doubt = !c.freeing.missed
}

// mayGrant reports whether a grant is to be tried: once, before anything else.
func (c *Claim) mayGrant() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.freeing.tried
	c.freeing.tried = true
	return first && !c.heirs.Empty()
}

// explainFree decides a release whose key was not there as it was acquired, by a
// read of its own: what a release seldom needs is not carried by each. The key
// cannot come back meanwhile (rule A1). Where it is gone after an answer was lost,
// and the session is as we know it, it was that delete which was applied;
// otherwise the key was lost before.
func (c *Claim) explainFree(ctx context.Context) error {
	c.mu.Lock()
	doubt := c.freeing.doubt
	c.freeing.missed = !doubt
	c.mu.Unlock()
	_, session := c.s.Same()
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "look why a release failed", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{session, txn.Look(c.key)},
	})
	if err != nil {
		return err // undecided: the delete, sent again, leads here again
	}
	lost := c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision)
	if lost == nil && !(doubt && txn.KV(resp, 1) == nil) {
		lost = &detail{ErrKeyDeleted, fmt.Sprintf("%q, before its release", c.key)}
	}
	c.decideFree(lost)
	return nil
}

// foundAs says why a key that was deleted as was, which the answer shows, was lost
// before: somebody else had written to it.
func (c *Claim) foundAs(was *mvccpb.KeyValue) error {
	if was == nil || c.written(eventOf(was)) {
		return nil
	}
	return &detail{ErrKeyOverwritten, fmt.Sprintf("%q at revision %d", c.key, was.ModRevision)}
}

// decideFree sets the answer of Release; a loss is from now on what Err says.
func (c *Claim) decideFree(lost error) {
	c.mu.Lock()
	if c.freeing.decided {
		c.mu.Unlock()
		return
	}
	c.freeing.decided = true
	if lost == nil {
		c.mu.Unlock()
		c.s.Settle(c.n)
		return
	}
	f := c.lost(true)
	c.freeing.err = &loss{lost}
	c.fate.Store(f)
	c.mu.Unlock()
	c.s.Settle(c.n)
	f.decide(lost)
}

// freeBehind lets the release go on behind the caller, once.
func (c *Claim) freeBehind() {
	c.mu.Lock()
	begin := !c.freeing.behind
	c.freeing.behind = true
	c.mu.Unlock()
	if begin {
		c.s.Reopen(c.n, c.key)
		c.s.RemoveBehind(freeing{c})
	}
}

// freeing is a release that goes on behind its caller.
type freeing struct{ c *Claim }

// Remove implements session.Removal.
func (r freeing) Remove(ctx context.Context) bool {
	_ = r.c.free(ctx)
	decided, _ := r.c.outcome()
	return decided
}

// undo removes a claim that was never held, or was lost: whether its enqueue was
// applied, was not, or may be later (rules A5, A6).
type undo struct{ c *Claim }

// Remove tries once and reports whether nothing is left.
func (u *undo) Remove(ctx context.Context) bool {
	if u.c.create != 0 { // applied, so that no copy is under way: a delete is all
		resp, err := u.c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "leave the queue", Repeat: cluster.Always}, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.CreateIs(u.c.key, u.c.create)},
			Success: []*pb.RequestOp{txn.Delete(u.c.key)},
			Failure: []*pb.RequestOp{txn.Look(u.c.key)},
		})
		_ = resp // either branch: it is not there
		if err != nil {
			return false
		}
	} else if u.c.s.Undo(ctx, u.c.n, u.c.key) != nil {
		return false
	}
	u.c.s.Settle(u.c.n)
	return true
}
