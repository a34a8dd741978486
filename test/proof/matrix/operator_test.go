package matrix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/keys"
)

// overwritten is the value of the keys that an operator overwrote.
const overwritten = "somebody else's"

// strike has an operator delete or overwrite, as op does, the keys under w.targets, of the holders
// and the waiters there: all of them or, if w.spares, a half. It counts those that it struck.
func (w *fixture) strike(t *testing.T, op func(key string) clientv3.Op) {
	var all []*mvccpb.KeyValue
	for _, root := range []string{"", keys.SemaphoreRoot(""), keys.ShardsRoot("")} {
		r, err := w.oracle.Get(w.within(t), root+w.targets, clientv3.WithPrefix())
		require.NoError(t, err)
		all = append(all, r.Kvs...)
	}
	all = slices.DeleteFunc(all, func(kv *mvccpb.KeyValue) bool {
		return string(kv.Value) == overwritten || w.spares && rand.N(2) == 0
	})
	for some := range slices.Chunk(all, 100) { // of the 128 that a transaction may have
		var ops []clientv3.Op
		for _, kv := range some {
			same := clientv3.Compare(clientv3.CreateRevision(string(kv.Key)), "=", kv.CreateRevision) // it may be gone
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{same}, []clientv3.Op{op(string(kv.Key))}, nil))
		}
		r, err := w.oracle.Txn(w.within(t)).Then(ops...).Commit()
		require.NoError(t, err)
		for i, answer := range r.Responses {
			if answer.GetResponseTxn().Succeeded {
				w.struck[kind(some[i])]++
			}
		}
	}
}

// aLease is what a revocation strikes.
const aLease = "a lease"

// kinds are those of the queue keys that all workers of a soak put.
var kinds = []string{"a lock", "a shared lock", "a set of names", "a semaphore's slot"}

// spared is what of f.strikes was never struck.
func (w *fixture) spared() (kinds []string) {
	for _, kind := range w.fault.strikes {
		if w.struck[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// kind is what the key is of.
func kind(kv *mvccpb.KeyValue) string {
	k, _ := keys.ParseQueueKey(string(kv.Key))
	switch {
	case k.Form == keys.Slot:
		return "a semaphore's slot"
	case k.Form == keys.Turnstile:
		return "a semaphore's turnstile"
	case keys.ParseNames(kv.Value) != nil:
		return "a set of names"
	case k.Form == keys.Shared:
		return "a shared lock"
	case !keys.OfLock(kv.Value):
		return "an election"
	}
	return "a lock"
}
