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

// ErrGone: the place was not there any more, so nothing was done.
var ErrGone = errors.New("it is not there any more")

// Evict ends the place p by deleting its key, if that still has the create
// revision that p says: never somebody else's, however late the request arrives.
// Its holder, if it is pawl's, finds out by the watch of its own key, or by its
// next renewal's look, and not at once: only the token, checked by the storage,
// keeps its late writes out. The next in line follows, with a greater token, as
// every key that is in the line or will be has been created later.
//
// Beside, where p is pawl's, it leaves a mark on p's lease, which says by whom; it
// goes with the lease. Where that cannot be written, for want of space or
// permission, the key is deleted without.
//
// The error matches ErrGone where the key is not there, and kv.ErrUnknown where no
// answer said what became of the request.
func Evict(ctx context.Context, c *pawl.Client, p Place, by string) error {
	r, _, err := newReader(ctx, c, Scope{})
	if err == nil && p.Token == 0 {
		err = errors.New("no place")
	}
	if err == nil {
		err = r.evict(ctx, p, by)
	}
	if err != nil {
		return fmt.Errorf("survey: evict %q: %w", p.Key, err)
	}
	return nil
}

// evict sends again what was lost: a second copy is harmless. Where it finds the
// key gone after an answer was lost, it is taken for the first one's doing.
func (r *reader) evict(ctx context.Context, p Place, by string) error {
	mark := r.mark(p, by)
	for doubt := false; ; {
		t := &pb.TxnRequest{
			Compare: []*pb.Compare{txn.CreateIs(p.Key, int64(p.Token))},
			Success: []*pb.RequestOp{txn.Delete(p.Key)},
			Failure: []*pb.RequestOp{txn.Look(p.Key)},
		}
		if mark != nil {
			t.Success = append(t.Success, mark)
		}
		resp, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "evict"}, t)
		switch {
		case err == nil && (resp.Succeeded || doubt):
			return nil
		case err == nil:
			return ErrGone
		case mark != nil && (cluster.IsNoSpace(err) || cluster.IsPermissionDenied(err) || cluster.IsLeaseNotFound(err)):
			doubt = doubt || cluster.OutcomeOf(err) == cluster.Unknown
			mark = nil
		case cluster.OutcomeOf(err) != cluster.Unknown || doubt || ctx.Err() != nil:
			return r.explainWrite(err, p)
		default:
			doubt = true
		}
	}
}

// mark puts the mark of an eviction; nil: p is not pawl's, and gets none.
func (r *reader) mark(p Place, by string) *pb.RequestOp {
	id, n := attemptOf(p.Key)
	if id == 0 || id != p.Lease { // a foreign place may be another name's, and pawl's there
		return nil
	}
	host, _ := os.Hostname()
	who := keys.Identity{Owner: by, Host: host, PID: os.Getpid(), Since: time.Now().UTC()}
	return txn.Put(keys.EvictionKey(keys.SessionKey(r.host.Namespace, id), n), who.Value(), id)
}

func (r *reader) explainWrite(err error, p Place) error {
	if !cluster.IsPermissionDenied(err) {
		return err
	}
	prefix, _ := keys.Split(p.Key)
	return fmt.Errorf("%w (the role needs readwrite on all keys from %q)", err, prefix)
}
