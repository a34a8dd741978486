package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/kv/clientv3guard"
	"github.com/pawl-locks/pawl/lock"
)

// A transaction of etcd's own client applies while the lock is held, and not once it is released, deleted by
// somebody else, or held by the next one.
func TestAGuardInATransactionOfEtcdsClientAppliesOnlyWhileHeld(t *testing.T) {
	b := start(t)
	put := func(g kv.Guard, value string) bool {
		r, err := b.etcd.Txn(b.ctx).If(clientv3guard.Cmp(g)).Then(clientv3.OpPut("config", value)).Commit()
		require.NoError(t, err)
		return r.Succeeded
	}
	m := lock.New(b.session(), "guarded", lock.Options{})
	h, err := m.Acquire(b.ctx)
	require.NoError(t, err)
	first := h.Guard()
	assert.Equal(t, h.Key(), first.Key())
	assert.EqualValues(t, h.Token(), first.CreateRevision())
	assert.True(t, put(first, "first"))
	require.NoError(t, h.Release(b.ctx))
	assert.False(t, put(first, "late"), "released")

	h, err = m.Acquire(b.ctx)
	require.NoError(t, err)
	second := h.Guard()
	assert.False(t, put(first, "late"), "somebody else holds")
	assert.True(t, put(second, "second"))
	_, err = b.etcd.Delete(b.ctx, second.Key())
	require.NoError(t, err)
	assert.False(t, put(second, "late"), "deleted")
	_, err = b.etcd.Put(b.ctx, second.Key(), "forged")
	require.NoError(t, err)
	assert.False(t, put(second, "late"), "deleted, and put by somebody else")

	r, err := b.etcd.Get(b.ctx, "config")
	require.NoError(t, err)
	assert.Equal(t, "second", string(r.Kvs[0].Value))
	_, err = b.etcd.Txn(b.ctx).If(clientv3guard.Cmp(kv.Guard{})).Then(clientv3.OpPut("config", "unguarded")).Commit()
	assert.ErrorIs(t, err, rpctypes.ErrEmptyKey)
}
