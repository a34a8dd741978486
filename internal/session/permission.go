package session

import (
	"context"
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Permitted returns nil if the client's user may read and write the session keys, and the keys below
// each of prefixes. A loop that was denied something asks this before it makes another session, because
// that would grant a lease for each try. It sends one transaction, whose condition is never true, and
// which therefore changes nothing. etcd checks the permissions for both branches.
func Permitted(ctx context.Context, host Host, prefixes ...string) error {
	root := keys.SessionRoot(host.Namespace)
	t := &pb.TxnRequest{Compare: []*pb.Compare{txn.CreateIs(root+"0", math.MaxInt64)}}
	for _, p := range append([]string{root}, prefixes...) {
		t.Success = append(t.Success, txn.Put(p+"0", nil, 0))
		t.Failure = append(t.Failure, txn.Between([]byte(p), txn.PrefixEnd(p), 1))
	}
	t.Failure[0] = txn.Stat(root + "0") // a role may have its sessions' keys alone
	_, err := host.Cluster.Txn(ctx, cluster.Request{Op: "ask for permissions", Repeat: cluster.Always}, t)
	if err != nil {
		return fmt.Errorf("permissions: %w", explain(err, host.Namespace))
	}
	return nil
}
