package queue

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// What only a set of names needs: its release, and what becomes of its other keys when one
// is lost (rules ML5, ML6).

// A set is what an acquisition of several names has beside others.
type set struct {
	watches   []*watcher.Watch // of the other own keys; guarded by the acquisition's mutex
	deletions []deletion       // where it is released key by key; the goroutine with the right to send has them
}

// makeSet makes a an acquisition of its names, before anything else is done with it.
func (a *Acquisition) makeSet() {
	if a.isSet() {
		a.set = &set{watches: make([]*watcher.Watch, len(a.more))}
		a.hook.Several(1 + len(a.more))
	}
}

// A deletion is what a release of a set, key by key, knows of one of its keys.
type deletion struct {
	done  bool              // it is decided, as follows
	was   *state.OwnChanged // as it was deleted; nil: it was not there
	doubt bool              // a delete may have been applied whose answer was lost
}

// releaseSet deletes those of the own keys that are there as they were acquired, in one
// transaction of nested ones, none of which puts anything, so that it works on a full disk.
// Where the role has lost its permission on one name, or the server allows fewer operations
// by now, it deletes key by key: what can be freed is. Only the one that has the right to
// send a release calls it.
func (a *Acquisition) releaseSet(ctx context.Context, repeat cluster.Repeat) (state.DeleteAnswered, error) {
	if a.set.deletions == nil {
		t := &pb.TxnRequest{}
		for _, key := range a.keys {
			t.Success = append(t.Success, txn.Nested(a.deleteTxn(key)))
		}
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, t) // by itself, as all that nests
		if err == nil {
			return a.deleted(func(i int) *state.OwnChanged {
				if kv := txn.Deleted(txn.Answer(resp, i), 0); kv != nil {
					was := a.shown(i, kv)
					return &was
				}
				return nil
			}), nil
		}
		if !cluster.IsPermissionDenied(err) && !cluster.IsTooManyOps(err) {
			return state.DeleteAnswered{Outcome: outcomeOf(resp, err)}, err
		}
		a.set.deletions = make([]deletion, len(a.keys))
	}
	if out, err := a.releaseEach(ctx, repeat); err != nil {
		return state.DeleteAnswered{Outcome: out}, err
	}
	return a.deleted(func(i int) *state.OwnChanged { return a.set.deletions[i].was }), nil
}

// deleteTxn deletes an own key if it is as it was acquired, and shows it as it was.
func (a *Acquisition) deleteTxn(key string) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, a.own().Create)},
		Success: []*pb.RequestOp{txn.DeletePrevious(key)},
	}
}

// releaseEach deletes key by key what is not decided yet. The error is the first one's, and
// the outcome the worst.
func (a *Acquisition) releaseEach(ctx context.Context, repeat cluster.Repeat) (out state.Outcome, err error) {
	for i, key := range a.keys {
		d := &a.set.deletions[i]
		if d.done {
			continue
		}
		resp, e := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, a.deleteTxn(key))
		switch o := outcomeOf(resp, e); {
		case o == state.Applied:
			was := a.shown(i, txn.Deleted(resp, 0))
			d.done, d.was = true, &was
		case o == state.Refused && d.doubt:
			d.done, d.was = true, &state.OwnChanged{Place: i} // it was the delete whose answer was lost
		case o == state.Refused:
			d.done = true
		default:
			d.doubt = d.doubt || o == state.Unknown
			out = max(out, o)
			if err == nil {
				err = e
			}
		}
	}
	return out, err
}

// deleted is the event of a release that was answered: was is how each key was deleted, nil
// where it was not there.
func (a *Acquisition) deleted(was func(i int) *state.OwnChanged) (ev state.DeleteAnswered) {
	there, missing := 0, 0
	for i := range a.keys {
		if w := was(i); w == nil {
			missing = i
		} else if there++; w.Mod >= ev.Was.Mod {
			ev.Was = *w
		}
	}
	if there < len(a.keys) {
		return state.DeleteAnswered{Outcome: state.Refused, Partly: there > 0, Missing: missing}
	}
	return ev
}

// leaveRest lets the other keys of a set go one TTL after a loss, unless they are given back
// before, or a call of Do goes on, which gives them back when its function has returned:
// to hand another name on while that winds down would make two of them (rule ML6).
func (a *Acquisition) leaveRest() {
	time.AfterFunc(a.s.TTL(), func() {
		a.mu.Lock()
		working := a.working > 0
		a.mu.Unlock()
		if !working {
			a.s.Host().Cleanup.Go("the rest of "+a.Key(), func(ctx context.Context) {
				if a.s.AwaitDeferred(ctx) && a.awaitPromise(ctx) {
					a.s.Leave(a.n)
				}
			})
		}
	})
}

// freeRest lets the other keys of a set that is lost go now.
func (a *Acquisition) freeRest() {
	if !a.isSet() {
		return
	}
	switch read(a, (*state.Acquisition).Ended) {
	case state.KeyDeleted, state.KeyOverwritten:
		a.s.Leave(a.n)
	}
}
