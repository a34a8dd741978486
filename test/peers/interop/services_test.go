package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lock"
)

// lease is one that a program in another language keeps alive itself.
func (b *bench) lease() int64 {
	b.t.Helper()
	l, err := b.etcd.Grant(b.ctx, 60)
	require.NoError(b.t, err)
	return int64(l.ID)
}

// createRevision is how a caller of etcd's services gets the token of its key.
func (b *bench) createRevision(key []byte) int64 {
	b.t.Helper()
	r, err := b.etcd.Get(b.ctx, string(key))
	require.NoError(b.t, err)
	require.Len(b.t, r.Kvs, 1)
	return r.Kvs[0].CreateRevision
}

// etcd's lock service, for languages without a client, waits in the same queue, and the tokens of both
// kinds increase together.
func TestEtcdsLockServiceWaitsInTheSameQueue(t *testing.T) {
	b := start(t)
	service := v3lockpb.NewLockClient(b.etcd.ActiveConnection())

	h, err := lock.New(b.session(), "jobs/42", etcdLayout).Acquire(b.ctx)
	require.NoError(t, err)
	type answer struct {
		*v3lockpb.LockResponse
		err error
	}
	answers := make(chan answer, 1)
	lease := b.lease()
	go func() { // ends with its turn
		r, err := service.Lock(b.ctx, &v3lockpb.LockRequest{Name: []byte("jobs/42"), Lease: lease})
		answers <- answer{r, err}
	}()
	b.queued("jobs/42", 2)
	waiting := make(chan *lock.Held, 1)
	go func() { // ends with its turn
		h, err := lock.New(b.session(), "jobs/42", etcdLayout).Acquire(b.ctx)
		assert.NoError(t, err)
		waiting <- h
	}()
	b.queued("jobs/42", 3)
	assert.Empty(t, answers, "held by pawl")
	first := h.Token()
	require.NoError(t, h.Release(b.ctx))

	theirs := <-answers
	require.NoError(t, theirs.err)
	second := b.createRevision(theirs.Key)
	assert.Greater(t, second, int64(first))
	assert.Empty(t, waiting, "held by the service's caller")
	_, err = service.Unlock(b.ctx, &v3lockpb.UnlockRequest{Key: theirs.Key})
	require.NoError(t, err)

	last := <-waiting
	assert.Greater(t, int64(last.Token()), second)
	assert.Greater(t, theirs.Header.Revision, int64(last.Token()), "which is why the answer's own revision is no token")
	require.NoError(t, last.Release(b.ctx))
	b.queued("jobs/42", 0)
}

// etcd's election service elects from the same queue; its leader key's revision is the token.
func TestEtcdsElectionServiceWaitsInTheSameQueue(t *testing.T) {
	b := start(t)
	service := v3electionpb.NewElectionClient(b.etcd.ActiveConnection())
	name := []byte("team/a")

	e := elect.New(b.session(), "team/a", electLayout)
	term, err := e.Campaign(b.ctx, []byte("pawl"))
	require.NoError(t, err)
	leader, err := service.Leader(b.ctx, &v3electionpb.LeaderRequest{Name: name})
	require.NoError(t, err)
	assert.Equal(t, "pawl", string(leader.Kv.Value))
	assert.EqualValues(t, term.Token(), leader.Kv.CreateRevision)

	answers := make(chan *v3electionpb.LeaderKey, 1)
	lease := b.lease()
	go func() { // ends with its turn
		r, err := service.Campaign(b.ctx, &v3electionpb.CampaignRequest{Name: name, Lease: lease, Value: []byte("service")})
		assert.NoError(t, err)
		answers <- r.GetLeader()
	}()
	b.queued("team/a", 2)
	assert.Empty(t, answers, "pawl leads")
	require.NoError(t, term.Resign(b.ctx))
	theirs := <-answers
	assert.Equal(t, b.createRevision(theirs.Key), theirs.Rev)
	assert.Greater(t, theirs.Rev, int64(term.Token()))
	seen, err := elect.LeaderOf(b.ctx, b.pawl, "team/a", electLayout)
	require.NoError(t, err)
	assert.Equal(t, "service", string(seen.Value))
	assert.EqualValues(t, theirs.Rev, seen.Token)

	_, err = b.etcd.Revoke(b.ctx, clientv3.LeaseID(lease))
	require.NoError(t, err)
	next, err := e.Campaign(b.ctx, []byte("pawl"))
	require.NoError(t, err)
	assert.Greater(t, int64(next.Token()), theirs.Rev)
	require.NoError(t, next.Resign(b.ctx))
}
