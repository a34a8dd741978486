package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// enqueue opens an attempt and puts its key at the end of the line; try: only if
// the line is empty. It returns whether the answer showed the key alone in the
// line. An answer that was lost is settled before it returns (rule A5).
func (c *Claim) enqueue(ctx context.Context, value []byte, try bool) (alone bool, err error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if c.n, c.key, err = c.s.Begin(c.line.Prefix); err != nil {
			return false, err
		}
		sole := !try && c.isSole() // a try compares with the whole line in any case
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "enqueue"}, c.enqueueTxn(value, try, sole))
		switch {
		case err == nil && resp.Succeeded:
			return c.enqueued(resp, sole)
		case err == nil:
			var refused bool
			if refused, err = c.refused(ctx, try); refused {
				return false, err
			}
		case cluster.IsLeaseNotFound(err):
			return false, c.s.Gone(err.Error())
		case cluster.OutcomeOf(err) == cluster.NotApplied:
			c.s.Settle(c.n)
			if try || ctx.Err() != nil || cluster.IsFinal(err) {
				return false, err
			}
			if err := c.linger(ctx, jitter(pause)); err != nil {
				return false, err
			}
			continue // the bound of a request is not an acquisition's
		}
		create, undecided := c.settle(ctx)
		switch {
		case undecided != nil:
			c.s.Leave(c.n)
			return false, fmt.Errorf("%w (settling it: %w)", err, undecided)
		case create != 0:
			c.waits(create, place{})
			return false, nil
		}
		c.s.Settle(c.n) // cancelled for good
		if cluster.IsTooLarge(err) {
			return false, err // as it would be under any other name
		}
		if err := c.linger(ctx, jitter(pause)); err != nil {
			return false, err
		}
	}
}

// enqueueTxn puts the own key, if neither it nor its cancel key is there and the
// session is as we know it, and reads who stands before it: the last-created keys
// of the line, around the session's own keys if it is sole.
func (c *Claim) enqueueTxn(value []byte, try, sole bool) *pb.TxnRequest {
	same, _ := c.s.Same()
	own := []byte(c.key)
	t := txn.New()
	t.Compare = append(t.Compare, txn.CreateIs(own, 0), txn.CreateIs(c.s.CancelKey(c.n), 0), same)
	t.Success = append(t.Success, txn.Put(own, value, c.s.ID()))
	if sole {
		from, to := keys.LeaseRange(own)
		t.Success = append(t.Success, txn.LastBetween([]byte(c.line.Prefix), from), txn.LastBetween(to, txn.PrefixEnd(c.line.Prefix)))
	} else {
		t.Success = append(t.Success, txn.LastUnder(c.line.Prefix, 2, 0))
	}
	if try {
		t.Compare = append(t.Compare, txn.NoneUnder(c.line.Prefix))
	}
	return t
}

// enqueued takes the answer of an applied enqueue in. sole: it read around the
// session's own keys.
func (c *Claim) enqueued(resp *pb.TxnResponse, sole bool) (alone bool, err error) {
	create := txn.PutRevision(resp, 0)
	var before place
	ahead, shown := 0, sole
	for i := range resp.Responses {
		for _, kv := range txn.KVs(resp, i) {
			if string(kv.Key) == c.key {
				shown = kv.CreateRevision == create
				ahead--
			} else if kv.CreateRevision > before.create {
				before = place{string(kv.Key), kv.CreateRevision}
			}
		}
		ahead += txn.Count(resp, i)
	}
	if create == 0 || !shown {
		c.s.Leave(c.n)
		return false, fmt.Errorf("the server's answer does not show key %q that it put", c.key)
	}
	whole := !sole || c.isSole() // an attempt that began later may have overtaken
	if whole {
		c.sawAhead(ahead)
	}
	if whole && before.key == "" {
		c.place(create, place{}, nil)
		return true, nil
	}
	c.waits(create, before)
	if before.key != "" {
		c.follow(before, resp.Header.Revision)
	}
	return false, nil
}

// waits places the own key behind before, and has it watched: first, for whoever
// comes behind watches it too, and shares that watch.
func (c *Claim) waits(create int64, before place) {
	c.place(create, before, make(chan struct{}, 1))
	c.watchOwn(create + 1)
}

// place notes where in the line the own key is, and what wakes the claim if it
// waits: all at once, for a watch of the own key may bring a grant by before, and
// the session may look, from now on. Nothing of ours was written to the key since
// it was put: a later modification, whoever sees it, is another's or a grant.
func (c *Claim) place(create int64, before place, woken chan struct{}) {
	c.s.Shown(c.n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.create, c.mod, c.before, c.woken = create, create, before, woken
}

// refused finds out, by a read of its own, why an enqueue was refused: what an
// enqueue seldom needs is not carried by each. false: the own key is there, put by
// another copy, or it cannot be told, so that the enqueue has to be settled.
func (c *Claim) refused(ctx context.Context, try bool) (bool, error) {
	_, session := c.s.Same()
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "look why an enqueue was refused", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{session, txn.Look(c.key), txn.Look(c.s.CancelKey(c.n)), txn.FirstUnder(c.line.Prefix)},
	})
	if err != nil {
		return false, err
	}
	if err := c.s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision); err != nil {
		return true, err
	}
	cancelled, first := txn.KV(resp, 2) != nil, txn.KV(resp, 3)
	switch {
	case txn.KV(resp, 1) != nil:
		return false, fmt.Errorf("another copy of the request put key %q", c.key)
	case cancelled:
		err = fmt.Errorf("key %q: somebody else wrote its cancel key", c.key)
	case try && first != nil:
		err = c.busy(string(first.Key))
	case try:
		err = &detail{ErrBusy, "held until a moment ago"}
	default:
		return false, fmt.Errorf("key %q was refused, and nothing shows why", c.key)
	}
	c.s.Settle(c.n)
	return true, err
}

// settle decides whether an enqueue whose answer was lost was applied: if the
// own key is there it was, and it is ours; create is 0 if it was not. The cancel
// key is put in either case: no late copy is applied after it, neither now nor
// when the key is released. An error means that it is undecided.
func (c *Claim) settle(ctx context.Context) (create int64, err error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "settle enqueue", Repeat: cluster.Always}, &pb.TxnRequest{
			Success: []*pb.RequestOp{txn.Put(c.s.CancelKey(c.n), nil, c.s.ID()), txn.Look(c.key)},
		})
		switch {
		case err == nil:
			return txn.KV(resp, 1).GetCreateRevision(), nil
		case cluster.IsLeaseNotFound(err):
			return 0, c.s.Gone(err.Error())
		case cluster.IsNoSpace(err), cluster.IsPermissionDenied(err), ctx.Err() != nil:
			return 0, err
		}
		if err := c.linger(ctx, jitter(pause)); err != nil {
			return 0, err
		}
	}
}

// busy is the error of a try that found key first in the line.
func (c *Claim) busy(key string) error {
	if lease, ok := c.line.owner(key); ok {
		return &detail{ErrBusy, fmt.Sprintf("held by %q, lease %x", key, lease)}
	}
	return &detail{ErrBusy, fmt.Sprintf("held by %q", key)}
}

// peek is the read before a try: it fails with ErrBusy where another holds or
// waits, and writes nothing.
func (c *Claim) peek(ctx context.Context) error {
	resp, err := c.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "look for a holder", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.FirstUnder(c.line.Prefix)},
	})
	if err != nil {
		return err
	}
	if first := txn.KV(resp, 0); first != nil {
		return c.busy(string(first.Key))
	}
	return nil
}
