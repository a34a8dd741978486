package queue

import (
	"bytes"
	"iter"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A grant hands a line on without a question. Whoever asks for its place reads
// also who stands behind it. That order is final: a key that is created later
// comes after all of them. Its release deletes its own key and, if the next key
// still has the create revision that was seen, puts a grant on it, all in one
// transaction, which shows that the one before was there until it released and
// that the next was there then. The next one's watch of its own key tells it: it
// holds, without a request (rule A2).
//
// A grant also carries who comes after, so that a line is asked about once in
// keys.MaxSuccessors handoffs: see keys.Handoff.
//
// Only keys whose value begins with keys.LockMark are granted to: a lock's, in
// pawl's layout. Everybody else, and whoever comes to a line about which nothing
// is known, is left to the ordinary way.

// grantWait is how long a waiter that expects a grant waits for it after it saw
// the key before go: the two events come in either order.
const grantWait = 20 * time.Millisecond

// heirs are those of kvs, which stand in line behind one another, to whom the line
// can be granted.
func (l Line) heirs(kvs []*mvccpb.KeyValue) keys.Successors {
	return keys.NewSuccessors(iter.Seq[keys.Successor](func(yield func(keys.Successor) bool) {
		for _, kv := range kvs {
			name, ok := bytes.CutPrefix(kv.Key, []byte(l.Prefix))
			if !ok || !yield(keys.Successor{Name: name, Create: kv.CreateRevision, Value: kv.Value}) {
				return
			}
		}
	}))
}

// cutGrant takes a granted key's value apart: who granted, and who comes after.
func (l Line) cutGrant(value []byte) (by place, behind keys.Successors, ok bool) {
	h, ok := keys.ParseHandoff(value)
	if !ok {
		return place{}, keys.Successors{}, false
	}
	return place{l.Prefix + string(h.By), h.Create}, h.Successors, true
}

// freeTxn gives the own key back: it deletes it if it is the one that was
// acquired. With grant, it also puts a grant on the next key, and does neither unless
// that is there as it was seen; without, it is nothing but a delete, so that it
// works on a full disk. Doing it twice is harmless.
func (c *Claim) freeTxn(grant bool) *pb.TxnRequest {
	own := []byte(c.key)
	free := txn.New()
	free.Compare = append(free.Compare, txn.CreateIs(own, c.create))
	free.Success = append(free.Success, txn.DeletePrevious(own))
	if next, rest, ok := c.knownHeirs().First(); grant && ok {
		key := slices.Concat([]byte(c.line.Prefix), next.Name)
		free.Compare = append(free.Compare, txn.CreateIs(key, next.Create))
		free.Success = append(free.Success, txn.PutKeepingLease(key, next.HandedOff(c.suffix(), c.create, rest)))
	}
	return free
}

// suffix is the own key behind the line's prefix.
func (c *Claim) suffix() string { return c.key[len(c.line.Prefix):] }

func (c *Claim) knownHeirs() keys.Successors {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heirs
}

// granted takes in a put on the own key that is on its lease, of its create
// revision and newer than what was known, if it is a grant. The claim's mutex is
// held. A grant by another than the one that is waited for, which is gone then,
// is as good a reason to ask as any.
func (c *Claim) granted(ev watcher.Event) bool {
	if !c.grants || c.mod != c.create {
		return false // a key is granted to once
	}
	by, behind, ok := c.line.cutGrant(ev.Value)
	if !ok {
		return false
	}
	c.mod = ev.ModRevision
	switch {
	case c.before.key == "": // it asked, and holds by that answer
	case c.before == by:
		c.mine, c.heirs = true, behind
	default:
		c.passed = true
	}
	c.wake()
	return true
}

// expects reports whether ev, the deletion of the key before, was of one that had
// been granted the line and knew the own key as next, so that its release was a
// grant to this one.
func (c *Claim) expects(ev watcher.Event) bool {
	if !c.grants {
		return false
	}
	_, behind, ok := c.line.cutGrant(ev.Value)
	next, _, named := behind.First()
	return ok && named && string(next.Name) == c.suffix() && next.Create == c.create
}
