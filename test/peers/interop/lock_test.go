package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
)

var etcdLayout = lock.Options{EtcdLayout: true}

func (b *bench) ourLock(who string) func(chan<- acquired) {
	m := lock.New(b.session(), "jobs/42", etcdLayout)
	return func(turns chan<- acquired) {
		h, err := m.Acquire(b.ctx)
		if assert.NoError(b.t, err) {
			turns <- acquired{who, func() { assert.NoError(b.t, h.Err()); assert.NoError(b.t, h.Release(b.ctx)) }}
		}
	}
}

func (b *bench) theirLock(who string) func(chan<- acquired) {
	m := concurrency.NewMutex(b.peer(), "jobs/42")
	return func(turns chan<- acquired) {
		if assert.NoError(b.t, m.Lock(b.ctx)) {
			turns <- acquired{who, func() { assert.NoError(b.t, m.Unlock(b.ctx)) }}
		}
	}
}

func TestLocksOfBothKindsQueueTogether(t *testing.T) {
	b := start(t)
	order := b.inOrder("jobs/42", []func(chan<- acquired){
		b.ourLock("pawl 1"), b.theirLock("etcd 1"), b.theirLock("etcd 2"), b.ourLock("pawl 2"), b.ourLock("pawl 3"), b.theirLock("etcd 3"),
	})
	assert.Equal(t, []string{"pawl 1", "etcd 1", "etcd 2", "pawl 2", "pawl 3", "etcd 3"}, order)
	order = b.inOrder("jobs/42", []func(chan<- acquired){b.theirLock("etcd 1"), b.ourLock("pawl 1"), b.theirLock("etcd 2")})
	assert.Equal(t, []string{"etcd 1", "pawl 1", "etcd 2"}, order)
}

func TestTryingSeesTheOtherKind(t *testing.T) {
	b := start(t)
	ours, theirs := lock.New(b.session(), "n", etcdLayout), concurrency.NewMutex(b.peer(), "n")
	h, err := ours.Acquire(b.ctx)
	require.NoError(t, err)
	assert.ErrorIs(t, theirs.TryLock(b.ctx), concurrency.ErrLocked)
	require.NoError(t, h.Release(b.ctx))
	require.NoError(t, theirs.TryLock(b.ctx))
	_, err = ours.TryAcquire(b.ctx)
	assert.ErrorIs(t, err, lock.ErrBusy)
	assert.ErrorContains(t, err, theirs.Key(), "it names the holder")
	require.NoError(t, theirs.Unlock(b.ctx))
	h, err = ours.TryAcquire(b.ctx)
	require.NoError(t, err)
	require.NoError(t, h.Release(b.ctx))
}

// A waiter that gives up, of either kind, leaves the others in the queue.
func TestWaitersThatGiveUpDoNotBreakTheQueue(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "n", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	gone, give := context.WithCancel(b.ctx)
	left := make(chan error, 2)
	ours, theirs := lock.New(b.session(), "n", etcdLayout), concurrency.NewMutex(b.peer(), "n")
	go func() { _, err := ours.Acquire(gone); left <- err }() // ends with gone
	b.queued("n", 2)
	go func() { left <- theirs.Lock(gone) }() // ends with gone
	b.queued("n", 3)
	got := make(chan error, 1)
	last := concurrency.NewMutex(b.peer(), "n")
	go func() { got <- last.Lock(b.ctx) }() // ends with its turn
	b.queued("n", 4)
	give()
	assert.Error(t, <-left)
	assert.Error(t, <-left)
	b.queued("n", 2)
	require.NoError(t, h.Release(b.ctx))
	require.NoError(t, <-got)
	require.NoError(t, last.Unlock(b.ctx))
}

// The peer's lost session lets pawl in, and pawl's the peer.
func TestALostSessionLetsTheOtherKindIn(t *testing.T) {
	b := start(t)
	p := b.peer()
	theirs := concurrency.NewMutex(p, "n")
	require.NoError(t, theirs.Lock(b.ctx))
	s := b.session()
	got := make(chan *lock.Held, 1)
	go func() { // ends with its turn
		h, err := lock.New(s, "n", etcdLayout).Acquire(b.ctx)
		assert.NoError(t, err)
		got <- h
	}()
	b.queued("n", 2)
	_, err := b.etcd.Revoke(b.ctx, p.Lease())
	require.NoError(t, err)
	h := <-got
	require.NoError(t, h.Err())

	next := concurrency.NewMutex(b.peer(), "n")
	locked := make(chan error, 1)
	go func() { locked <- next.Lock(b.ctx) }() // ends with its turn
	b.queued("n", 2)
	_, err = b.etcd.Revoke(b.ctx, clientv3.LeaseID(s.ID()))
	require.NoError(t, err)
	require.NoError(t, <-locked)
	<-h.Done()
	assert.ErrorIs(t, h.Err(), lock.ErrLost)
	require.NoError(t, next.Unlock(b.ctx))
}

// A transaction of the peer's can compare our key, and one of ours theirs is
// compared with by its create revision.
func TestTokensAreCreateRevisionsForBoth(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "n", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	guard := clientv3.Compare(clientv3.CreateRevision(h.Key()), "=", int64(h.Token()))
	r, err := b.etcd.Txn(b.ctx).If(guard).Then(clientv3.OpPut("x", "1")).Commit()
	require.NoError(t, err)
	assert.True(t, r.Succeeded)
	require.NoError(t, h.Release(b.ctx))
	r, err = b.etcd.Txn(b.ctx).If(guard).Then(clientv3.OpPut("x", "2")).Commit()
	require.NoError(t, err)
	assert.False(t, r.Succeeded)
	_, err = b.pawl.KV().Txn(b.ctx, kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("x", nil)}})
	assert.ErrorIs(t, err, kv.ErrFenced)
}

func TestNamesCollideAsThePeersDo(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "a/b", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, concurrency.NewMutex(b.peer(), "a").Lock(ctx), context.DeadlineExceeded)
	_, err = lock.New(b.session(), "a", etcdLayout).TryAcquire(b.ctx)
	require.ErrorIs(t, err, lock.ErrBusy)
	own, err := lock.New(b.session(), "a", lock.Options{}).TryAcquire(b.ctx)
	require.ErrorIs(t, err, lock.ErrBusy, "a name without a slash is the same in both layouts")
	require.Nil(t, own)
	require.NoError(t, h.Release(b.ctx))
}

func TestASlashAtTheEndOfANameIsPartOfIt(t *testing.T) {
	b := start(t)
	m := concurrency.NewMutex(b.peer(), "jobs/nightly/")
	h, err := lock.New(b.session(), "jobs/nightly/", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	require.ErrorIs(t, m.TryLock(b.ctx), concurrency.ErrLocked)
	require.NoError(t, h.Release(b.ctx))

	other, err := lock.New(b.session(), "jobs/nightly", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	require.NoError(t, m.TryLock(b.ctx), "another name, which the docs warn of")
	require.NoError(t, other.Err())
	require.NoError(t, m.Unlock(b.ctx))
}
