package queue

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/watch"
)

// Rewrite puts a new value on the own key, which keeps its create revision and
// its place. Calls are to be made one at a time. The put compares the create and
// the modification revision, so a delayed copy of an older value can never
// overwrite a newer one. An answer that was lost is settled by a read, here or
// at the next call; until then the error matches kv.ErrUnknown.
func (c *Claim) Rewrite(ctx context.Context, value []byte) error {
	for sent := false; ; sent = true {
		if err := c.Err(); err != nil {
			return err
		}
		if landed, err := c.settleWrites(ctx); err != nil {
			return err
		} else if sent && landed != nil && bytes.Equal(landed, value) {
			return nil
		}
		mod := c.writes(value)
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "write value"}, c.rewriteTxn(value, mod))
		switch {
		case err == nil && resp.Succeeded:
			c.wrote(txn.KV(resp, 1).ModRevision)
			return c.Err()
		case err == nil: // an older copy of ours landed before, or it is lost
			if err := c.overtaken(resp); err != nil {
				return err
			}
		case cluster.OutcomeOf(err) == cluster.NotApplied:
			c.unwrite(value)
			return err
		case ctx.Err() != nil:
			return err
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

// settleWrites reads what became of the writes whose answers were lost; landed
// is the value of one that was applied. Those that were not may still be, until
// the next write or they are refused by its comparison: one of them at the most.
func (c *Claim) settleWrites(ctx context.Context) (landed []byte, err error) {
	c.mu.Lock()
	mod, settled := c.mod, len(c.writing) == 0
	c.mu.Unlock()
	if settled {
		return nil, nil
	}
	session, _ := c.s.Key()
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read value", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Look(session), txn.Get(c.key)},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: an earlier value's fate is not known: %w", cluster.ErrUnknown, err)
	}
	if err := c.overtaken(resp); err != nil {
		return nil, err
	}
	if kv := txn.KV(resp, 1); kv.ModRevision > mod {
		return kv.Value, nil
	}
	return nil, nil
}

// overtaken takes in how the own key is, after a comparison with it failed or an
// answer was lost: as we know it, rewritten by the value that is under way, or
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

func eventOf(kv *mvccpb.KeyValue) watch.Event {
	return watch.Event{Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Lease: kv.Lease}
}

// written reports whether a put on the own key is ours: known already, or of a
// value that is under way, on our lease and with our create revision. If so its
// modification revision is noted, and no other value under way can be applied
// any more, for all compare the one before.
func (c *Claim) written(ev watch.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.ModRevision <= c.mod {
		return true
	}
	if ev.Lease != c.s.ID() || ev.CreateRevision != c.create || !slices.ContainsFunc(c.writing, func(v []byte) bool { return bytes.Equal(v, ev.Value) }) {
		return false
	}
	c.mod, c.writing = ev.ModRevision, nil
	return true
}

// writes notes that value is under way, and returns the modification revision
// that it is to be compared with.
func (c *Claim) writes(value []byte) (mod int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = append(c.writing, value)
	return c.mod
}

// unwrite notes that value was not applied.
func (c *Claim) unwrite(value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.writing, func(v []byte) bool { return bytes.Equal(v, value) }); i >= 0 {
		c.writing = slices.Delete(c.writing, i, i+1)
	}
}

// wrote notes that the value under way was written at revision mod.
func (c *Claim) wrote(mod int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mod > c.mod {
		c.mod, c.writing = mod, nil
	}
}
