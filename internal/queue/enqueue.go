package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// enter puts a key at the end of each queue, and returns when the keys are known to exist, with what follows.
// A try first reads whether anybody is there.
func (a *Acquisition) enter(ctx context.Context, r Request) (next state.Step, err error) {
	if r.Try {
		if err := a.s.Join(&a.entry, a); err != nil {
			return next, err
		}
		if err := a.peek(ctx); err != nil {
			return next, err
		}
	}
	for wait := backoff.Request(); ; {
		outcome, next, err := a.enqueue(ctx, r)
		if outcome == state.Unknown {
			outcome, err = a.settle(ctx, err)
			next = a.next()
		}
		if err != nil {
			return next, err
		}
		if outcome == state.Applied {
			return next, a.entered(r)
		}
		if err := a.pause(ctx, wait.Next()); err != nil {
			return next, err
		}
	}
}

// entered reports an enqueue that was applied. It returns why the acquisition must not go on.
func (a *Acquisition) entered(r Request) error {
	if ended := a.ended.Load(); ended != nil { // meanwhile
		return ended.err
	}
	a.notifyEnqueued()
	if r.Enqueued != nil {
		r.Enqueued()
	}
	a.checkLayouts()
	if floor := a.s.Host().Floor; floor > 0 {
		return aboveFloor(a.Token(), floor)
	}
	return nil
}

// enqueue sends one enqueue, with key names that were never used. If the outcome is Applied, next is what
// follows. If it is Unknown, err says why. If it is NotApplied and err is nil, the enqueue may be sent again.
// Otherwise err ends the acquisition.
func (a *Acquisition) enqueue(ctx context.Context, r Request) (o state.Outcome, next state.Step, err error) {
	place, err := a.s.Enqueues(ctx, "enqueue", len(a.queues))
	if err != nil {
		return state.NotApplied, next, err
	}
	alone, err := a.begins()
	if err != nil {
		place.Leave()
		return state.NotApplied, next, err
	}
	skipOwn := alone && !r.Try && a.isOrdinary() // a try reads the whole queue in any case
	resp, err := a.write(ctx, batch.Write{Op: "enqueue", Kind: batch.Ordered, Txn: a.enqueueTxn(r, skipOwn)})
	place.Leave()
	switch {
	case err == nil && resp.Succeeded:
		next, err = a.enqueued(resp, skipOwn)
		return state.Applied, next, err
	case err == nil:
		o, err = a.refused(ctx, r.Try)
		return o, next, err
	case cluster.IsLeaseNotFound(err):
		return state.NotApplied, next, a.s.Gone(err.Error())
	case cluster.OutcomeOf(err) == cluster.NotApplied:
		a.apply(state.NotPut{}, nil)
		if r.Try || cluster.EndOf(ctx) != nil || cluster.IsFinal(err) {
			return state.NotApplied, next, err
		}
		return state.NotApplied, next, nil // a request's time limit does not end an acquisition
	}
	// One that was answered needs no cancel key, which could not be put on a full disk.
	a.apply(state.AnswerLost{Answered: cluster.OutcomeOf(err) == cluster.Answered}, nil)
	return state.Unknown, next, err
}

// begins adds an entry to the session's book, which assigns new key names. alone says that no other key of the
// session can be in the queue.
func (a *Acquisition) begins() (alone bool, err error) {
	specs := make([]keys.Spec, len(a.queues))
	for i, q := range a.queues {
		specs[i] = q.spec()
	}
	a.keys, alone, err = a.s.Begin(&a.entry, a, a.hasOwnerKey, specs...)
	return alone, err
}

// enqueueTxn puts the acquisition's keys if neither they nor their cancel key exist and the session
// key is unchanged. It also reads the predecessors: the last-created keys of each queue or, with
// skipOwn, the last-created ones that sort before and after the session's keys. Because it is one
// transaction, all the acquisition's keys get one create revision (rule ML1).
func (a *Acquisition) enqueueTxn(r Request, skipOwn bool) *pb.TxnRequest {
	own := []byte(a.keys[0])
	t := txn.New()
	t.Compare = append(t.Compare, txn.CreateIs(own, 0), txn.CreateIs(a.s.CancelKey(a.entry.Number()), 0), a.s.Same())
	t.Success = append(t.Success, txn.Put(own, r.Value, a.s.ID()))
	for _, key := range a.keys[1:] {
		t.Compare = append(t.Compare, txn.CreateIs(key, 0))
		t.Success = append(t.Success, txn.Put(key, r.Value, a.s.ID()))
	}
	for _, q := range a.queues {
		switch {
		case skipOwn:
			from, to := keys.LeaseRange(own)
			t.Success = append(t.Success, txn.LastBetween([]byte(q.Prefix), from, 0), txn.LastBetween(to, txn.PrefixEnd(q.Prefix), 0))
		case q.Shared: // these ranges do not contain its key
			t.Success = append(t.Success, q.lastConflicts(0)...)
		default:
			t.Success = append(t.Success, txn.LastUnder(q.conflictPrefix(), 2, 0))
		}
		if r.Try {
			t.Compare = append(t.Compare, q.noConflicts()...)
		}
	}
	if a.permit != nil {
		t.Success = append(t.Success, a.queues[0].slotsIfFirst())
	}
	if a.hasOwnerKey {
		t.Success = append(t.Success, txn.Put(a.s.OwnerKey(a.entry.Number()), r.Owner, a.s.ID()))
	}
	return t
}

// enqueued processes the answer of an applied enqueue, and returns what follows. skipOwn says that the enqueue
// left the session's keys out of what it read.
func (a *Acquisition) enqueued(resp *pb.TxnResponse, skipOwn bool) (next state.Step, err error) {
	ev := state.Enqueued{
		Own: state.Key{Name: a.keys[0], Create: txn.PutRevision(resp, 0)}, Others: a.keys[1:], Revision: resp.Header.Revision,
	}
	ahead, own, wrong := a.readAhead(resp, &ev)
	for _, q := range a.queues {
		if !skipOwn && !q.Shared { // only then does it read its key
			own--
		}
	}
	if ev.Own.Create == 0 || own != 0 {
		a.apply(state.AnswerLost{}, nil)
		return next, fmt.Errorf("the server's answer does not show key %q that it put", a.keys[0])
	}
	first := true
	if a.permit != nil {
		ev.Taken, first = a.takenIfFirst(resp)
	}
	a.mu.Lock()
	whole := !skipOwn || a.s.Alone(&a.entry, a.queues[0].Prefix) // otherwise a later acquisition of this session may be ahead
	ev.Whole = whole && first
	did := a.step(ev, nil)
	next = a.entry.Next()
	a.mu.Unlock()
	if whole && a.notice != nil {
		a.notice.ahead = ahead
	}
	a.carryOut(did)
	return next, wrong
}

// readAhead takes the predecessor from what an enqueue read. ahead is how many other keys that
// counted, and own how many of the acquisition's keys it showed. wrong says that another key was
// created with them.
func (a *Acquisition) readAhead(resp *pb.TxnResponse, ev *state.Enqueued) (ahead, own int, wrong error) {
	for i := range resp.Responses {
		for _, kv := range txn.KVs(resp, i) {
			switch name := string(kv.Key); {
			case slices.Contains(a.keys, name):
				if kv.CreateRevision == ev.Own.Create {
					own++
				}
				ahead--
			case kv.CreateRevision == ev.Own.Create:
				wrong = tie(ev.Own, kv)
			case kv.CreateRevision > ev.Predecessor.Create:
				ev.Predecessor = state.Key{Name: name, Create: kv.CreateRevision}
			}
		}
		ahead += txn.Count(resp, i)
	}
	return ahead, own, wrong
}

// refused finds out, by a separate read, why an enqueue was refused. The enqueue does not carry
// these reads because they are seldom needed. The server has executed the only copy that we sent,
// so none of the keys exists, whatever the reason, unless somebody else sent another copy. Only then
// is the outcome Unknown. err is never nil.
func (a *Acquisition) refused(ctx context.Context, try bool) (outcome state.Outcome, err error) {
	t := &pb.TxnRequest{} // with no more operations than the enqueue had: the server accepted that many
	sessionKey, own, cancel := txn.Then(t, a.s.ReadKey()), txn.Then(t, a.ownKeys(txn.Stat)...), txn.Then(t, txn.Stat(a.s.CancelKey(a.entry.Number())))
	var conflicts []txn.Ops
	if try {
		conflicts = a.firstConflicts(t)
	}
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read why an enqueue was refused", Repeat: cluster.Always}, t)
	if err != nil {
		a.apply(state.AnswerLost{Answered: true}, nil) // none of its keys should exist, and they are removed
		return state.NotApplied, err
	}
	if err := a.s.ValidateKey(sessionKey.In(resp).KV(0), resp.Header.Revision); err != nil {
		return state.NotApplied, err
	}
	switch {
	case first(own.In(resp)) != nil:
		a.apply(state.AnswerLost{}, nil)
		return state.Unknown, fmt.Errorf("another copy of the request put key %q", a.keys[0])
	case cancel.In(resp).KV(0) != nil:
		err = fmt.Errorf("key %q: somebody else wrote its cancel key", a.keys[0])
	case try:
		if err = a.firstBusy(resp, conflicts); err == nil {
			err = fmt.Errorf("%w: held until a moment ago", ErrBusy)
		}
	default:
		err = fmt.Errorf("key %q was refused, and nothing shows why", a.keys[0])
	}
	a.apply(state.NotPut{}, nil)
	return state.NotApplied, err
}

// firstConflicts adds to t a read of the first-created conflicting keys, for each queue.
func (a *Acquisition) firstConflicts(t *pb.TxnRequest) (each []txn.Ops) {
	for _, q := range a.queues {
		each = append(each, txn.Then(t, q.firstConflicts()...))
	}
	return each
}

// firstBusy returns the error of a try for the first name that is not free, or nil if all are free.
// each is what firstConflicts added.
func (a *Acquisition) firstBusy(resp *pb.TxnResponse, each []txn.Ops) error {
	for i, ops := range each {
		if kv := first(ops.In(resp)); kv != nil {
			return a.busy(i, string(kv.Key))
		}
	}
	return nil
}

// busy returns the error of a try that found key to be the first conflicting one in the queue at
// index i.
func (a *Acquisition) busy(i int, key string) error {
	which := ""
	if a.isSet() {
		which = fmt.Sprintf("%q is ", a.queues[i].Name)
	}
	if until, ok := a.s.KeptAfterRelease(key); ok {
		left := max(until.Sub(clock.Now()), 0).Round(time.Millisecond)
		return fmt.Errorf("%w: %s%q, which this session has released, stays for %v more (AtLeast)", ErrBusy, which, key, left)
	}
	if lease, ok := a.owner(key); ok {
		return fmt.Errorf("%w: %sheld by %q, lease %x", ErrBusy, which, key, lease)
	}
	return fmt.Errorf("%w: %sheld by %q", ErrBusy, which, key)
}

// peek reads before a try. If somebody else holds or waits, it fails with ErrBusy, and nothing is
// written.
func (a *Acquisition) peek(ctx context.Context) error {
	t := &pb.TxnRequest{}
	conflicts := a.firstConflicts(t)
	var slots txn.Ops
	if a.permit != nil {
		slots = txn.Then(t, a.queues[0].slots())
	}
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read who holds", Repeat: cluster.Always}, t)
	if err != nil {
		return err
	}
	if a.permit != nil {
		if err := a.noneFree(slots.In(resp)); err != nil {
			return err
		}
	}
	return a.firstBusy(resp, conflicts)
}
