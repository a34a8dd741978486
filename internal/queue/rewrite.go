package queue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A write is one value on its way to the own key.
//
// Invariants: every write in Claim.writing was sent with a comparison to
// Claim.mod, so at most one of them can ever be applied, and once mod moves on
// none of them can. One that is taken out was applied, or cannot be any more.
type write struct {
	value  []byte
	again  bool // an earlier call sent the same value, which may be applied yet
	landed bool // applied; guarded by the claim's mutex
}

// doubts is how often in one call a write is sent again after its answer was
// lost, before the caller is told that the outcome is unknown.
const doubts = 3

// Rewrite puts a new value on the own key, which keeps its create revision and
// its place. Calls are to be made one at a time. The put compares the create and
// the modification revision, so a delayed copy of an older value can never
// overwrite a newer one, and a value is put once however often it is sent. nil:
// it was put while it was held. An answer that was lost is settled by a read,
// here or at the next call; while it is not, the error matches kv.ErrUnknown.
func (c *Claim) Rewrite(ctx context.Context, value []byte) error {
	c.setRewriting(true)
	defer c.setRewriting(false)
	err := c.rewrite(ctx, &write{value: bytes.Clone(value)})
	if lost := c.Err(); err != nil && lost != nil {
		return lost
	}
	return err
}

func (c *Claim) rewrite(ctx context.Context, w *write) error {
	if err := c.Err(); err != nil {
		return err
	}
	if err := c.settleWrites(ctx); err != nil {
		return fmt.Errorf("%w: of an earlier value: %w", cluster.ErrUnknown, err)
	}
	var doubt error // an answer was lost: a copy may be under way
	for lost := 0; ; {
		mod := c.writes(w)
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "write value"}, c.rewriteTxn(w.value, mod))
		switch {
		case err == nil && resp.Succeeded:
			c.wrote(w, txn.KV(resp, 1).ModRevision)
		case err == nil: // a copy landed before, of w or of an older value; or it is lost
			if err := c.overtaken(resp); err != nil {
				return err
			}
		case cluster.IsLeaseNotFound(err):
			return c.s.Gone(err.Error())
		case cluster.OutcomeOf(err) == cluster.NotApplied && doubt == nil && w.again:
			return fmt.Errorf("%w: of an earlier copy of the value (sent again: %w)", cluster.ErrUnknown, err)
		case cluster.OutcomeOf(err) == cluster.NotApplied && doubt == nil:
			c.unwrite(w)
			return err
		case cluster.OutcomeOf(err) == cluster.NotApplied:
			return fmt.Errorf("%w (sent again: %w)", doubt, err)
		default:
			doubt = err
			lost++
			if err := c.settleWrites(ctx); err != nil {
				return fmt.Errorf("%w (reading it: %w)", doubt, err)
			}
		}
		switch {
		case c.isLanded(w):
			return c.Err()
		case c.Err() != nil:
			return c.Err()
		case doubt != nil && (lost >= doubts || ctx.Err() != nil || cluster.IsNoSpace(doubt)):
			return doubt
		}
	}
}

func (c *Claim) rewriteTxn(value []byte, mod int64) *pb.TxnRequest {
	session, sessionMod := c.s.Key()
	return &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(c.key, c.create), txn.ModIs(c.key, mod), txn.ModIs(session, sessionMod)},
		Success: []*pb.RequestOp{txn.Put(c.key, value, c.s.ID()), txn.Look(c.key)},
		Failure: []*pb.RequestOp{txn.Look(session), txn.Get(c.key)},
	}
}

// settleWrites reads what became of the writes whose answers were lost. Those
// that were not applied may still be, until the next write or they are refused
// by its comparison.
func (c *Claim) settleWrites(ctx context.Context) error {
	c.mu.Lock()
	settled := len(c.writing) == 0
	c.mu.Unlock()
	if settled {
		return nil
	}
	return c.readOwn(ctx)
}

// readOwn reads how the own key is, and takes it in.
func (c *Claim) readOwn(ctx context.Context) error {
	session, _ := c.s.Key()
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read value", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Look(session), txn.Get(c.key)},
	})
	if err != nil {
		return err
	}
	return c.overtaken(resp)
}

// settleBehind reads, behind the caller, whether a change of the own key is a
// grant, or a write of ours whose answer was lost and whose caller has gone.
// A call of Rewrite under way does that itself.
func (c *Claim) settleBehind() {
	c.mu.Lock()
	begin := !c.recall && !c.reread
	c.reread = c.reread || begin
	c.mu.Unlock()
	if !begin {
		return
	}
	read := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_ = c.readOwn(ctx) // failed: the next look asks again
		c.setSettled()
	}
	if !c.s.Host().Behind.Go("the value of "+c.key, read) {
		c.setSettled()
	}
}

func (c *Claim) setSettled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reread = false
}

func (c *Claim) setRewriting(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recall = on
}

// overtaken takes in how the own key is, after a comparison with it failed or an
// answer was lost: as we know it, rewritten by a value that is under way, or
// lost.
func (c *Claim) overtaken(resp *pb.TxnResponse) error {
	if c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision) != nil {
		return c.Err()
	}
	kv := txn.KV(resp, 1)
	switch {
	case kv == nil || kv.CreateRevision != c.create:
		c.deleted()
		return c.Err()
	case !c.written(eventOf(kv)):
		c.overwritten(kv.ModRevision)
		return c.Err()
	}
	return nil
}

func eventOf(kv *mvccpb.KeyValue) watcher.Event {
	return watcher.Event{Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Lease: kv.Lease}
}

// written reports whether a put on the own key is ours: known already, or of a
// value that is under way, on our lease and with our create revision. If so its
// modification revision is noted, and no other value under way can be applied
// any more, for all compare the one before.
func (c *Claim) written(ev watcher.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.ModRevision <= c.mod {
		return true
	}
	if ev.Lease != c.s.ID() || ev.CreateRevision != c.create {
		return false
	}
	if c.granted(ev) {
		return true
	}
	ours := false
	for _, w := range c.writing {
		if bytes.Equal(w.value, ev.Value) {
			w.landed, ours = true, true
		}
	}
	if ours {
		c.mod, c.writing = ev.ModRevision, nil
	}
	return ours
}

// writes notes that w is under way, and returns the modification revision that
// it is to be compared with.
func (c *Claim) writes(w *write) (mod int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// An older one with the same value is told apart by nothing, and its caller
	// has gone. So there are as many as a caller has tried different values in
	// vain, none of which may be forgotten.
	c.writing = slices.DeleteFunc(c.writing, func(other *write) bool {
		same := bytes.Equal(other.value, w.value)
		w.again = w.again || same && (other != w || other.again)
		return same
	})
	c.writing = append(c.writing, w)
	return c.mod
}

// unwrite notes that w was not applied and never will be.
func (c *Claim) unwrite(w *write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = slices.DeleteFunc(c.writing, func(other *write) bool { return other == w })
}

// wrote notes that w was applied at revision mod.
func (c *Claim) wrote(w *write, mod int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.landed = true
	if mod > c.mod {
		c.mod, c.writing = mod, nil
	}
}

func (c *Claim) isLanded(w *write) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.landed
}
