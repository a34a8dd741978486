// Package clientv3guard guards transactions of etcd's own client, clientv3, with locks and terms of pawl. It
// is a separate module, so that only its users depend on clientv3.
//
//	resp, err := client.Txn(ctx).
//		If(clientv3guard.Cmp(held.Guard()), clientv3.Compare(clientv3.ModRevision("config"), "=", seen)).
//		Then(clientv3.OpPut("config", next)).
//		Commit()
//
// If resp.Succeeded is false, one of the comparisons failed, and etcd does not say which: held.Err, or a read
// of the guard's key in Else, tells whether it was the lock. An Else runs for a stale holder too, so it
// must only read. kv.Client.Txn has neither limit.
package clientv3guard

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/kv"
)

// Cmp returns the comparison that holds while g's lock is held: that its key has the create revision that it
// was acquired with. It is for the cluster of the lock, and for a client that puts no prefix before its
// keys, as clientv3's package namespace does. A transaction with the comparison of the zero Guard is refused by
// etcd, with rpctypes.ErrEmptyKey.
func Cmp(g kv.Guard) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(g.Key()), "=", g.CreateRevision())
}
