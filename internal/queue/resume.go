package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Resume returns the acquisition of keys that the session's predecessor held: one key in each of
// queues, in their order. One transaction reads whether each has the create revision t, on this
// session, with nothing before it in its queue. The error matches ErrLost if one no longer exists. A key
// is resumed once. A key that this session acquired itself must not be resumed, because it has a holder.
func Resume(ctx context.Context, s *session.Session, own []string, t fencing.Token, l Limits, queues ...Queue) (*Acquisition, error) {
	if t <= 0 {
		return nil, fmt.Errorf("token %d is none", t)
	}
	if len(own) != len(queues) {
		return nil, fmt.Errorf("%d keys for %d names", len(own), len(queues))
	}
	a := newAcquisition(ctx, s, slices.Clone(queues))
	a.keys, a.hasOwnerKey = slices.Clone(own), queues[0].Election // the predecessor may have put an owner key
	if a.permit != nil {
		a.permit.cancels = true // the session was taken over, so no copy of the predecessor's enqueue can be applied
	}
	n, err := a.knowOwn()
	if err != nil {
		return nil, err
	}
	a.beginNotices(ctx)
	rev, held, err := a.queryOwned(ctx, s, n, t)
	if err != nil {
		return nil, err
	}
	if end := cluster.EndOf(ctx); end != nil {
		return nil, end
	}
	if err := s.Err(); err != nil { // rule T3: Adopt does not compare the clock
		return nil, err
	}
	switch ok, err := s.Adopt(&a.entry, a, held, n, a.keys...); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("key %q was acquired, or resumed, in this process", a.Key())
	}
	if a.hasOwnerKey {
		s.PutsOwnerKey(&a.entry)
	}
	a.mu.Lock()
	s.Limit(&a.entry, l)
	a.mu.Unlock()
	a.watchOwn(state.All, rev+1)
	a.notifyWon()
	return a, nil
}

// queryOwned sends a query, answered at rev, which has to show that the acquisition, whose number is n, owns
// its names. held is the state that follows.
func (a *Acquisition) queryOwned(ctx context.Context, s *session.Session, n int64, t fencing.Token) (rev int64, held state.Machine, err error) {
	if err := s.Err(); err != nil {
		return 0, held, err
	}
	if err := aboveFloor(t, s.Host().Floor); err != nil {
		return 0, held, err
	}
	sent := query{own: state.Key{Name: a.Key(), Create: int64(t)}}
	a.prepare(&sent)
	sent.value = txn.Then(sent.txn, txn.Get(a.Key()))
	resp, err := s.Host().Cluster.Txn(ctx, cluster.Request{Op: "resume", Repeat: cluster.Always}, sent.txn)
	if err != nil {
		if ended := s.Err(); ended != nil {
			return 0, held, ended
		}
		return 0, held, a.explain(err)
	}
	mod, err := a.resumed(sent, resp)
	switch {
	case err == nil:
		held = state.Resumed(sent.own, mod, a.keys[1:]...)
	case a.lacksOwn(sent, resp):
		if left := first(sent.keys.In(resp)); left != nil { // it is left as at any other loss of one key (rule ML6)
			a.endedBefore(n, state.Key{Name: a.keys[0], Create: left.CreateRevision}, state.OwnDeleted{}, ErrKeyDeleted)
		} else if ok, _ := s.Adopt(&a.entry, nil, state.Left(false), n, a.keys...); ok {
			s.Absent(&a.entry)
		}
	case errors.Is(err, ErrKeyOverwritten):
		// Its key was taken off its lease, so nothing else would remove it from the queue.
		a.endedBefore(n, sent.own, state.OwnChanged{Create: sent.own.Create, Mod: sent.value.In(resp).KV(0).ModRevision}, nil)
	}
	return resp.Header.Revision, held, err
}

// endedBefore ends, by ev, a hold that ended before it was resumed, unless it was resumed before.
func (a *Acquisition) endedBefore(n int64, own state.Key, ev state.Event, why error) {
	a.notice = nil // it was never held here
	if ok, _ := a.s.Adopt(&a.entry, a, state.Resumed(own, own.Create, a.keys[1:]...), n, a.keys...); ok {
		a.apply(ev, why)
	}
}

// knowOwn takes the acquisition's number n and the modes from the names of its keys.
func (a *Acquisition) knowOwn() (n int64, err error) {
	for i := range a.queues {
		q := &a.queues[i]
		own, ok := q.Parse(a.keys[i])
		if !ok || own.Lease != a.s.ID() || !q.isHeldAs(own.Form) || i > 0 && own.N != n {
			return 0, fmt.Errorf("key %q is not one of lease %x under the name %q", a.keys[i], a.s.ID(), q.Name)
		}
		n = own.N
		if own.Form == keys.Slot {
			q.resumed = int32(own.Slot) + 1
			continue
		}
		q.Shared = own.Form == keys.Shared
	}
	return n, nil
}

// checkValue fails if the value of its key, for a set of the first, shows that the key was acquired
// as something else. A permit's key shows that by its name.
func (a *Acquisition) checkValue(value []byte) error {
	if a.permit != nil {
		return nil
	}
	n, set := keys.SizeOfSet(value)
	switch {
	case a.queues[0].Election && keys.OfLock(value):
		return fmt.Errorf("%w: key %q is a lock's", ErrOther, a.Key())
	case !a.queues[0].Election && !keys.OfLock(value):
		return fmt.Errorf("%w: key %q is no lock's: an election's, or somebody overwrote it", ErrOther, a.Key())
	case set && n != len(a.keys), !set && a.isSet():
		return fmt.Errorf("%w: key %q is one of %d that are held as a whole, and %d are resumed", ErrOther, a.Key(), max(n, 1), len(a.keys))
	}
	return nil
}

// lacksOwn reports whether q was refused and showed that a key of a set is missing. What is left of
// the set has no other holder, and is deleted as after a loss (rule ML6).
func (a *Acquisition) lacksOwn(q query, resp *pb.TxnResponse) bool {
	if !a.isSet() || resp.Succeeded || a.s.ValidateKey(q.session.In(resp).KV(0), resp.Header.Revision) != nil {
		return false
	}
	return q.keys.In(resp).Count() < len(a.keys)
}

// resumed returns the modification revision of its key, or an error that says why the answer to q
// does not make it held.
func (a *Acquisition) resumed(q query, resp *pb.TxnResponse) (mod int64, err error) {
	if !resp.Succeeded {
		if err := a.s.ValidateKey(q.session.In(resp).KV(0), resp.Header.Revision); err != nil {
			return 0, &loss{err}
		}
		for i := range a.owned() {
			if etcdapi.CreateRevision(q.keys.In(resp).KV(i)) != q.own.Create {
				return 0, &loss{fmt.Errorf("%w: %s with create revision %d is not there", ErrKeyDeleted, a.of(i), q.own.Create)}
			}
		}
		return 0, fmt.Errorf("refused at revision %d, and nothing shows why", resp.Header.Revision)
	}
	switch before, tied := a.before(q, resp); {
	case tied != nil:
		return 0, tied
	case before != (state.Key{}):
		return 0, fmt.Errorf("key %q was never held: %q is before it", a.Key(), before.Name) // or before one of the other keys
	}
	if resp.Header.Revision < q.own.Create {
		return 0, fmt.Errorf("answered at revision %d, before the own key's %d", resp.Header.Revision, q.own.Create)
	}
	kv := q.value.In(resp).KV(0)
	if kv.Lease != a.s.ID() {
		return 0, &loss{fmt.Errorf("%w: %s is on another lease, or on none", ErrKeyOverwritten, a.of(0))}
	}
	if err := a.checkValue(kv.Value); err != nil {
		return 0, err
	}
	if a.isSet() {
		return q.own.Create, nil // a change of the key was not ours, and a renewal finds that
	}
	return kv.ModRevision, nil
}
