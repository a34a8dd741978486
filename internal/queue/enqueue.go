package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/txn"
)

// enter puts a queue key at the end of the queue, and returns when it is known to be
// there.
func (a *Acquisition) enter(ctx context.Context, r Request) error {
	for wait := newBackoff(); ; {
		lost, err := a.enqueue(ctx, r)
		if err == nil && lost != nil {
			err = a.settle(ctx, lost)
		}
		if err != nil {
			return err
		}
		if a.own().Create != 0 {
			a.notifyEnqueued()
			return nil
		}
		if err := a.pause(ctx, wait.Next()); err != nil {
			return err
		}
	}
}

// enqueue sends one enqueue, under a name of its own. lost says why its answer does not
// tell whether it was applied. With neither lost nor an error it was applied, or it was
// not and can be sent again later.
func (a *Acquisition) enqueue(ctx context.Context, r Request) (lost, err error) {
	n, own, err := a.s.Begin(a.queue.place())
	if err != nil {
		return nil, err
	}
	a.n, a.key = n, own[0]
	around := !r.Try && a.isAlone() // a try compares with the whole queue in any case
	resp, err := a.write(ctx, together.Write{Op: "enqueue", Kind: together.Ordered, Txn: a.enqueueTxn(r.Value, r.Try, around)})
	switch {
	case err == nil && resp.Succeeded:
		return nil, a.enqueued(resp, around)
	case err == nil:
		var refused bool
		if refused, err = a.refused(ctx, r.Try); refused {
			return nil, err
		}
	case cluster.IsLeaseNotFound(err):
		return nil, a.s.Gone(err.Error())
	case cluster.OutcomeOf(err) == cluster.NotApplied:
		a.s.Settle(a.n)
		if r.Try || cluster.EndOf(ctx) != nil || cluster.IsFinal(err) {
			return nil, err
		}
		return nil, nil // the bound of a request is not an acquisition's
	}
	a.apply(state.AnswerLost{}, nil)
	return err, nil
}

// enqueueTxn puts the own key, if neither it nor its cancel key is there and the
// session is as we know it, and reads who stands before it: the last-created keys
// of the queue, or around the session's own keys.
func (a *Acquisition) enqueueTxn(value []byte, try, around bool) *pb.TxnRequest {
	same, _ := a.s.Same()
	own := []byte(a.key)
	t := txn.New()
	t.Compare = append(t.Compare, txn.CreateIs(own, 0), txn.CreateIs(a.s.CancelKey(a.n), 0), same)
	t.Success = append(t.Success, txn.Put(own, value, a.s.ID()))
	switch {
	case around:
		from, to := keys.LeaseRange(own)
		t.Success = append(t.Success, txn.LastBetween([]byte(a.queue.Prefix), from, 0), txn.LastBetween(to, txn.PrefixEnd(a.queue.Prefix), 0))
	case a.queue.Shared: // the own key is not among those in its way
		t.Success = append(t.Success, a.queue.lastInTheWay(0)...)
	default:
		t.Success = append(t.Success, txn.LastUnder(a.queue.Prefix, 2, 0))
	}
	if try {
		t.Compare = append(t.Compare, a.queue.noneInTheWay()...)
	}
	return t
}

// enqueued takes in the answer of an applied enqueue. around: it read around the
// session's own keys.
func (a *Acquisition) enqueued(resp *pb.TxnResponse, around bool) error {
	ev := state.Enqueued{Own: state.Key{Name: a.key, Create: txn.PutRevision(resp, 0)}, Revision: resp.Header.Revision}
	ahead, shown := 0, around || a.queue.Shared // neither reads the own key
	var tied error
	for i := range resp.Responses {
		for _, kv := range txn.KVs(resp, i) {
			if string(kv.Key) == a.key {
				shown = kv.CreateRevision == ev.Own.Create
				ahead--
			} else if kv.CreateRevision == ev.Own.Create {
				tied = tie(ev.Own, kv)
			} else if kv.CreateRevision > ev.Predecessor.Create {
				ev.Predecessor = state.Key{Name: string(kv.Key), Create: kv.CreateRevision}
			}
		}
		ahead += txn.Count(resp, i)
	}
	if ev.Own.Create == 0 || !shown {
		a.apply(state.AnswerLost{}, nil)
		return fmt.Errorf("the server's answer does not show key %q that it put", a.key)
	}
	if ev.Whole = !around || a.isAlone(); ev.Whole { // otherwise one that began later may have overtaken
		a.sawAhead(ahead)
	}
	a.s.Shown(a.n)
	a.apply(ev, nil)
	return tied
}

// refused finds out, by a read of its own, why an enqueue was refused: what an
// enqueue seldom needs is not carried by each. false: the own key is there, put by
// another copy, or it cannot be told, so that the enqueue has to be settled.
func (a *Acquisition) refused(ctx context.Context, try bool) (bool, error) {
	_, session := a.s.Same()
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read why an enqueue was refused", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: append([]*pb.RequestOp{session, txn.Look(a.key), txn.Look(a.s.CancelKey(a.n))}, a.queue.firstInTheWay()...),
	})
	if err != nil {
		return false, err
	}
	if err := a.s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision); err != nil {
		return true, err
	}
	cancelled, first := txn.KV(resp, 2) != nil, first(resp, 3, len(resp.Responses)-3)
	switch {
	case txn.KV(resp, 1) != nil:
		return false, fmt.Errorf("another copy of the request put key %q", a.key)
	case cancelled:
		err = fmt.Errorf("key %q: somebody else wrote its cancel key", a.key)
	case try && first != "":
		err = a.busy(first)
	case try:
		err = &detail{ErrBusy, "held until a moment ago"}
	default:
		return false, fmt.Errorf("key %q was refused, and nothing shows why", a.key)
	}
	a.s.Settle(a.n)
	return true, err
}

// busy is the error of a try that found key first in its way.
func (a *Acquisition) busy(key string) error {
	if lease, ok := a.queue.owner(key); ok {
		return &detail{ErrBusy, fmt.Sprintf("held by %q, lease %x", key, lease)}
	}
	return &detail{ErrBusy, fmt.Sprintf("held by %q", key)}
}

// peek is the read before a try: it fails with ErrBusy where another holds or
// waits, and writes nothing.
func (a *Acquisition) peek(ctx context.Context) error {
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read who holds", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: a.queue.firstInTheWay(),
	})
	if err != nil {
		return err
	}
	if first := first(resp, 0, len(resp.Responses)); first != "" {
		return a.busy(first)
	}
	return nil
}
