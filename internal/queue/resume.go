package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Resume returns the acquisition of a key that the session's predecessor held. One transaction
// reads whether key has the create revision t, on this session, with nothing before it in the
// queue. The error matches ErrLost if the key no longer exists. A key is resumed once. A key that
// this session acquired itself must not be resumed, because it has a holder.
func Resume(ctx context.Context, s *session.Session, q Queue, key string, t fencing.Token, l Limits) (*Acquisition, error) {
	return ResumeAll(ctx, s, []string{key}, t, l, q)
}

// ResumeAll is Resume for a set. own are its keys, in the order of its names.
func ResumeAll(ctx context.Context, s *session.Session, own []string, t fencing.Token, l Limits, q Queue, more ...Queue) (*Acquisition, error) {
	if t <= 0 {
		return nil, fmt.Errorf("token %d is none", t)
	}
	if len(own) != 1+len(more) {
		return nil, fmt.Errorf("%d keys for %d names", len(own), 1+len(more))
	}
	a := newAcquisition(ctx, s, q, slices.Clone(more))
	a.keys, a.hasOwnerKey = slices.Clone(own), q.Election // the predecessor may have put an owner key
	if a.permit != nil {
		a.permit.cancels = true // the session was taken over, so no copy of the predecessor's enqueue can be applied
	}
	if err := a.knowOwn(); err != nil {
		return nil, err
	}
	a.beginNotices(ctx)
	rev, err := a.queryOwned(ctx, s, t)
	if err != nil {
		return nil, err
	}
	if end := cluster.EndOf(ctx); end != nil {
		return nil, end
	}
	if err := s.Err(); err != nil { // rule T3: Hold does not compare the clock
		return nil, err
	}
	if !s.Adopt(a.n, a.keys...) {
		return nil, fmt.Errorf("key %q was acquired, or resumed, in this process", a.Key())
	}
	if a.hasOwnerKey {
		s.PutsOwnerKey(a.n)
	}
	if err := s.Hold(&a.hook, a, a.n, false); err != nil {
		return nil, err
	}
	a.limit(l, s.KeptUntil(a.n))
	a.watchOwn(state.All, rev+1)
	a.notifyWon()
	return a, nil
}

// queryOwned sends a query, answered at rev, which has to show that the acquisition owns its names,
// and begins the state by the answer.
func (a *Acquisition) queryOwned(ctx context.Context, s *session.Session, t fencing.Token) (rev int64, err error) {
	if err := s.Err(); err != nil {
		return 0, err
	}
	if err := aboveFloor(t, s.Host().Floor); err != nil {
		return 0, err
	}
	sent := query{own: state.Key{Name: a.Key(), Create: int64(t)}}
	a.prepare(&sent)
	sent.value = txn.Then(sent.txn, txn.Get(a.Key()))
	resp, err := s.Host().Cluster.Txn(ctx, cluster.Request{Op: "resume", Repeat: cluster.Always}, sent.txn)
	if err != nil {
		if ended := s.Err(); ended != nil {
			return 0, ended
		}
		return 0, a.explain(err)
	}
	mod, err := a.resumed(sent, resp)
	switch {
	case err == nil:
		a.state = state.Resumed(sent.own, mod, a.keys[1:]...)
	case a.lacksOwn(sent, resp) && s.Adopt(a.n, a.keys...):
		a.lostBefore(putAt(sent.keys.In(resp)))
	case errors.Is(err, ErrKeyOverwritten) && s.Adopt(a.n, a.keys...):
		a.overwrittenBefore(sent.own, sent.value.In(resp).KV(0).ModRevision)
	}
	return resp.Header.Revision, err
}

// lostBefore handles a set that lost a key before it was resumed. The other keys, put at create,
// are left as at any other loss of one key (rule ML6). If create is 0, no key is left.
func (a *Acquisition) lostBefore(create int64) {
	if create == 0 {
		a.s.Learn(a.n, session.Absent)
		return
	}
	a.notice = nil // it was never held here
	a.state = state.Resumed(state.Key{Name: a.keys[0], Create: create}, create, a.keys[1:]...)
	a.apply(state.OwnDeleted{}, ErrKeyDeleted)
}

// overwrittenBefore removes the key own. Somebody else wrote to it at mod, before it was resumed,
// and took it off its lease, so nothing else would remove it from the queue.
func (a *Acquisition) overwrittenBefore(own state.Key, mod int64) {
	a.notice = nil // it was never held here
	a.state = state.Resumed(own, own.Create, a.keys[1:]...)
	a.apply(state.OwnChanged{Create: own.Create, Mod: mod}, nil)
}

// knowOwn takes the acquisition's number and the modes from the names of its keys.
func (a *Acquisition) knowOwn() error {
	for i, q := range a.queues() {
		own, ok := q.Parse(a.keys[i])
		if !ok || own.Lease != a.s.ID() || !q.isHeldAs(own.Form) || i > 0 && own.N != a.n {
			return fmt.Errorf("key %q is not one of lease %x under the name %q", a.keys[i], a.s.ID(), q.Name)
		}
		a.n = own.N
		if own.Form == keys.Slot {
			a.queue.resumed = int32(own.Slot) + 1
			continue
		}
		if shared := own.Form == keys.Shared; i == 0 {
			a.queue.Shared = shared
		} else {
			a.more[i-1].Shared = shared
		}
	}
	return nil
}

// checkValue fails if the value of its key, for a set of the first, shows that the key was acquired
// as something else. A permit's key shows that by its name.
func (a *Acquisition) checkValue(value []byte) error {
	if a.permit != nil {
		return nil
	}
	n, set := keys.SizeOfSet(value)
	switch {
	case a.queue.Election && keys.OfLock(value):
		return &detail{ErrOther, fmt.Sprintf("key %q is a lock's", a.Key())}
	case !a.queue.Election && !keys.OfLock(value):
		return &detail{ErrOther, fmt.Sprintf("key %q is no lock's: an election's, or somebody overwrote it", a.Key())}
	case set && n != len(a.keys), !set && a.isSet():
		return &detail{ErrOther, fmt.Sprintf("key %q is one of %d that are held as a whole, and %d are resumed", a.Key(), max(n, 1), len(a.keys))}
	}
	return nil
}

// lacksOwn reports whether q was refused and showed that a key of a set is missing. What is left of
// the set has no other holder, and is deleted as after a loss (rule ML6).
func (a *Acquisition) lacksOwn(q query, resp *pb.TxnResponse) bool {
	if !a.isSet() || resp.Succeeded || a.s.ValidateKey(q.session.In(resp).KV(0), resp.Header.Revision) != nil {
		return false
	}
	for i := range a.keys {
		if q.keys.In(resp).KV(i) == nil {
			return true
		}
	}
	return false
}

// resumed returns the modification revision of its key, or an error that says why the answer to q
// does not make it held.
func (a *Acquisition) resumed(q query, resp *pb.TxnResponse) (mod int64, err error) {
	if !resp.Succeeded {
		if err := a.s.ValidateKey(q.session.In(resp).KV(0), resp.Header.Revision); err != nil {
			return 0, &loss{err}
		}
		for i := range a.owned() {
			if q.keys.In(resp).KV(i).GetCreateRevision() != q.own.Create {
				return 0, &loss{&detail{ErrKeyDeleted, fmt.Sprintf("%s with create revision %d is not there", a.of(i), q.own.Create)}}
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
		return 0, &loss{&detail{ErrKeyOverwritten, fmt.Sprintf("%s is on another lease, or on none", a.of(0))}}
	}
	if err := a.checkValue(kv.Value); err != nil {
		return 0, err
	}
	if a.isSet() {
		return q.own.Create, nil // a change of the key was not ours, and a renewal finds that
	}
	return kv.ModRevision, nil
}
