package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Confirm asks the cluster, linearizably, whether the own key and the session
// are as we know them. nil: they were, at some moment during the call. An answer
// that they are not ends the claim; that no answer came does not.
func (c *Claim) Confirm(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	session, _ := c.s.Key()
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "confirm", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Look(session), txn.Get(c.key)},
	})
	if err != nil {
		if lost := c.Err(); lost != nil {
			return lost
		}
		return c.line.explain(err, c.s.Host().Namespace)
	}
	own := txn.KV(resp, 1)
	switch {
	case c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision) != nil:
	case own == nil || own.CreateRevision != c.create:
		c.finish(&detail{ErrKeyDeleted, fmt.Sprintf("%q at revision %d", c.key, resp.Header.Revision)})
		c.s.Settle(c.n)
	case !c.written(eventOf(own)):
		c.overwritten(own.ModRevision)
	}
	return c.Err()
}

// Resume makes the claim of a key that the session's predecessor held: one
// transaction asks whether key has the create revision t, on this session, with
// nothing before it in the line. The error matches ErrLost where it is not there
// any more. A key is resumed once; one that this session acquired itself is not
// to be resumed, for it has its holder.
func Resume(ctx context.Context, s *session.Session, line Line, key string, t fencing.Token) (*Claim, error) {
	if t <= 0 {
		return nil, fmt.Errorf("token %d is none", t)
	}
	own, ok := line.Parse(key)
	if !ok || own.Lease != s.ID() {
		return nil, fmt.Errorf("key %q is not one of lease %x under the name %q", key, s.ID(), line.Name)
	}
	c := &Claim{s: s, line: line, parent: ctx, key: key, n: own.N}
	c.see(ctx)
	if err := s.Err(); err != nil {
		return nil, err
	}
	if floor := s.Host().Floor; t <= floor {
		return nil, fmt.Errorf("%w: %d, the floor is %d", pawl.ErrTokenFloor, t, floor)
	}
	c.create = int64(t)
	resp, err := s.Host().Cluster.Txn(ctx, cluster.Request{Op: "resume", Repeat: cluster.Always}, c.resumeTxn())
	if err != nil {
		if over := s.Err(); over != nil {
			return nil, over
		}
		return nil, line.explain(err, s.Host().Namespace)
	}
	if err := c.resumed(resp); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, cluster.EndOf(ctx)
	}
	if !s.Adopt(own.N, key) {
		return nil, fmt.Errorf("key %q was acquired, or resumed, in this process", key)
	}
	c.held = true
	if err := s.Hold(&c.hook, c, own.N); err != nil {
		return nil, err
	}
	c.watchOwn(resp.Header.Revision + 1)
	c.tellWon(resumed)
	return c, nil
}

// resumeTxn is askTxn, and reads the own key for its modification revision.
func (c *Claim) resumeTxn() *pb.TxnRequest {
	t := c.askTxn(departed{}, false)
	t.Success = append(t.Success, txn.Look(c.key))
	return t
}

// resumed says why the answer to resumeTxn does not make the claim held.
func (c *Claim) resumed(resp *pb.TxnResponse) error {
	if !resp.Succeeded {
		if err := c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision); err != nil {
			return &loss{err}
		}
		return &loss{&detail{ErrKeyDeleted, fmt.Sprintf("%q with create revision %d is not there", c.key, c.create)}}
	}
	if first := txn.KV(resp, 0); first != nil {
		return fmt.Errorf("key %q was never held: %q is before it", c.key, first.Key)
	}
	if resp.Header.Revision < c.create {
		return fmt.Errorf("answered at revision %d, before the own key's %d", resp.Header.Revision, c.create)
	}
	c.mod = txn.KV(resp, 1).ModRevision
	return nil
}
