package session

import (
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// removalOps is how many operations removing e takes, or 0 if it is gone or has to stay.
func (s *Session) removalOps(e *Entry) int {
	switch {
	case !s.book.has(e) || !e.removable():
		return 0
	case e.Late():
		return 1 + len(e.keys) + e.extras()
	}
	return len(e.keys) + e.extras()
}

// undoTxn removes entries for good, in one transaction that the server refuses to a session that was
// taken over. It also puts the cancel keys of entries whose enqueues may still be applied. If deletions
// is true, the transaction only deletes, and left are the entries that still have to be removed after
// it.
func (s *Session) undoTxn(es []*Entry, deletions bool) (w batch.Write, left []*Entry) {
	t := &pb.TxnRequest{Compare: []*pb.Compare{s.own.same}, Failure: []*pb.RequestOp{s.ReadKey()}}
	w = batch.Write{Op: "leave the queue", Repeat: cluster.Always, Kind: batch.Plain, Txn: t}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range es {
		switch {
		case s.removalOps(e) == 0:
			continue // gone meanwhile
		case e.Late() && deletions:
			left = append(left, e)
		case e.Late():
			t.Success = append(t.Success, txn.Put(s.CancelKey(e.number), nil, s.id))
		}
		for _, key := range e.keys {
			t.Success = append(t.Success, txn.Delete(key))
		}
		if !e.Late() && e.cancelled {
			t.Success = append(t.Success, txn.Delete(s.CancelKey(e.number)))
		}
		if e.ownerKey {
			t.Success = append(t.Success, txn.Delete(s.OwnerKey(e.number)))
		}
		for name := range e.names() {
			s.touch(&w, name)
		}
	}
	return w, left
}

// touch adds the queue of name to w's queues. A queue in etcd's layout may contain another one.
func (s *Session) touch(w *batch.Write, name string) {
	switch {
	case w.Queue == "":
		w.Queue = name
	case w.Queue != name && !slices.Contains(w.More, name):
		w.More = append(w.More, name)
	default:
		return
	}
	if q, ok := keys.ParseQueue(s.host.Namespace, name); !ok || q.EtcdLayout {
		w.Kind = batch.Alone
	}
}

// removeEntries removes entries for good, whether their enqueues were applied, were not, or may be
// later. It can be repeated. Without disk space (NOSPACE) it still deletes what can be deleted, and
// returns the error of the disk, or of the deletion if that fails.
func (s *Session) removeEntries(ctx context.Context, es []*Entry) error {
	undo := func(w batch.Write) error {
		err := s.sendUndo(ctx, w)
		if len(es) == 1 && len(w.Txn.Success) > 1 && (cluster.IsPermissionDenied(err) || cluster.IsTooManyOps(err)) {
			err = s.undoEach(ctx, w)
		}
		return err
	}
	w, _ := s.undoTxn(es, false)
	err := undo(w)
	if cluster.IsNoSpace(err) {
		w, left := s.undoTxn(es, true)
		if err := undo(w); err != nil {
			return err // the keys may exist; their deletion does not wait for disk space
		}
		es = slices.DeleteFunc(slices.Clone(es), func(e *Entry) bool { return slices.Contains(left, e) })
	}
	if err == nil || cluster.IsNoSpace(err) {
		s.mu.Lock()
		for _, e := range es {
			s.absent(e)
		}
		s.mu.Unlock()
	}
	return err
}

// undoEach sends the parts of w, which undoes one entry, one by one and in their order: a cancel key
// before the deletions, and the deletion of a key in a turnstile before that of a slot's key, which a
// take may put while the first exists. So it removes what can be removed even if the role has no
// permission on another name, or the server allows few operations.
func (s *Session) undoEach(ctx context.Context, w batch.Write) (err error) {
	whole := w.Txn
	for _, op := range whole.Success {
		w.Txn = &pb.TxnRequest{Compare: whole.Compare, Success: []*pb.RequestOp{op}, Failure: whole.Failure}
		if e := s.sendUndo(ctx, w); e != nil && err == nil {
			err = e
		}
		if op.GetRequestPut() != nil && err != nil {
			return err // a late copy could still be applied after the deletions
		}
	}
	return err
}

// sendUndo sends w, which undoTxn has made.
func (s *Session) sendUndo(ctx context.Context, w batch.Write) error {
	if len(w.Txn.Success) == 0 {
		return nil
	}
	resp, err := s.Write(ctx, w)
	switch {
	case cluster.IsLeaseNotFound(err):
		return s.Gone(fmt.Sprintf("lease %x was not found", s.id))
	case cluster.IsTooManyOps(err):
		s.limitOps(len(w.Txn.Success))
		return err
	case err != nil:
		return err
	case !resp.Succeeded:
		return s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision)
	}
	return nil
}

// limitOps records that a transaction with refused operations had too many. The next has at most half
// as many, but at least two.
func (s *Session) limitOps(refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxOps = min(s.maxOps, max(refused/2, 2))
}
