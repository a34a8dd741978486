package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// ErrGone is matched by errors that report that the key no longer exists, so nothing was done.
var ErrGone = errors.New("it is not there any more")

// Evict removes the position p from its queue by deleting p's key if the key still has p's create
// revision. It never deletes somebody else's key, however late the request arrives. A holder that
// uses pawl does not learn of it at once, but by the watch of its key or by the read with its next
// renewal. Until then only the token, checked by the storage, keeps its writes out. The next in the
// queue succeeds it, with a greater token, because every other key in the queue was created later.
//
// If p is pawl's, Evict also writes a mark on p's lease that names the caller. The mark goes with
// the lease. If the mark cannot be written, for lack of space or permission, Evict deletes the key
// without it.
//
// The error matches ErrGone if the key does not exist, and kv.ErrUnknown if no answer resolved the
// request's outcome.
func Evict(ctx context.Context, c *pawl.Client, p Position, by string) error {
	_, err := using(ctx, c, fmt.Sprintf("inspect: evict %q", p.Key), func(r *reader) (none struct{}, err error) {
		if p.Token == 0 {
			return none, errors.New("no position")
		}
		return none, r.evict(ctx, p, by)
	})
	return err
}

// evict sends its request again if the answer is lost: a second copy is harmless. If the key is
// gone then, it assumes that the first request deleted it.
func (r *reader) evict(ctx context.Context, p Position, by string) error {
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(p.Key, int64(p.Token))},
		Success: []*pb.RequestOp{txn.Delete(p.Key)},
		Failure: []*pb.RequestOp{txn.Stat(p.Key)},
	}
	if mark := r.mark(p, by); mark != nil {
		t.Success = append(t.Success, mark)
	}
	for doubt := false; ; {
		resp, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "evict"}, t)
		if err == nil {
			if !resp.Succeeded && !doubt {
				return ErrGone
			}
			return nil
		}
		unknown := cluster.OutcomeOf(err) != cluster.NotApplied
		switch {
		case len(t.Success) > 1 && forbidsMark(err):
			t.Success = t.Success[:1] // without the mark
		case !unknown || doubt || ctx.Err() != nil:
			return r.explainWrite(err, p)
		}
		doubt = doubt || unknown
	}
}

// forbidsMark reports whether err may be because of the mark.
func forbidsMark(err error) bool {
	return cluster.IsNoSpace(err) || cluster.IsPermissionDenied(err) || cluster.IsLeaseNotFound(err)
}

// mark returns the write of an eviction's mark, or nil if p is not pawl's.
func (r *reader) mark(p Position, by string) *pb.RequestOp {
	id, n := sequenceOf(p.Key)
	if id == 0 || id != p.Lease { // a foreign key may be pawl's under another name
		return nil
	}
	host, _ := os.Hostname()
	who := keys.Identity{Owner: by, Host: host, PID: os.Getpid(), Since: time.Now().UTC()}
	return txn.Put(keys.EvictionKey(keys.SessionKey(r.host.Namespace, id), n), who.Value(), id)
}

func (r *reader) explainWrite(err error, p Position) error {
	if !cluster.IsPermissionDenied(err) {
		return err
	}
	prefix, _ := keys.Split(p.Key)
	return fmt.Errorf("%w (the role needs readwrite on all keys from %q)", err, prefix)
}
