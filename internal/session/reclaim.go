package session

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// ErrGone is the error of Reclaim for a lease that was gone already.
var ErrGone = errors.New("lease: reclaim: the lease is gone already")

// Remains are what the death of a process leaves of its session at the server: the lease, and the
// session key with the revisions at which the session wrote it.
type Remains struct {
	Cluster     uint64
	Lease       int64
	Create, Mod int64
}

// Remains returns what the death of this process would leave of s.
func (s *Session) Remains() Remains {
	return Remains{s.host.Cluster.ID(), s.id, s.own.create, s.own.mod}
}

// Reclaim revokes the lease of a session whose process is dead. The caller must have proof that no
// process is left that could believe that it holds something on that lease. It first deletes the
// session key if that is as the dead process wrote it. So it leaves the lease to a process that has
// taken it over, with an error that matches lease.ErrTakenOver, and no process can take it over later.
// It returns nil once the server confirms that the lease is gone, or ErrGone if it was already, as where
// another has reclaimed it. It tries until ctx ends, and for some seconds at most.
func Reclaim(ctx context.Context, host Host, r Remains) error {
	if id := host.Cluster.ID(); r.Cluster != id {
		return fmt.Errorf("lease: reclaim: lease %x is of cluster %x, the endpoints of %x", r.Lease, r.Cluster, id)
	}
	key := keys.SessionKey(host.Namespace, r.Lease)
	t := &pb.TxnRequest{Compare: []*pb.Compare{txn.CreateIs(key, r.Create), txn.ModIs(key, r.Mod)}}
	txn.Then(t, txn.Delete(key))
	left := txn.Else(t, txn.Stat(key))
	resp, err := host.Cluster.Txn(ctx, cluster.Request{Op: "reclaim session", Repeat: cluster.Always}, t)
	if err != nil {
		return fmt.Errorf("lease: reclaim: %w", err)
	}
	if kv := left.In(resp).KV(0); kv != nil {
		return fmt.Errorf("lease: reclaim: %w: session key %q is at revision %d, the dead process wrote %d", lease.ErrTakenOver, key, kv.ModRevision, r.Mod)
	}
	if !resp.GetSucceeded() { // the key is gone
		switch err := revokeOnce(ctx, host.Cluster, r.Lease); {
		case err == nil:
			return nil
		case cluster.IsLeaseNotFound(err):
			return ErrGone
		}
	}
	return revokeUntilGone(ctx, host.Cluster, r.Lease, closeTotal, 0)
}
