package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

var electLayout = elect.Options{EtcdLayout: true}

func (b *bench) ourCandidate(who string) func(chan<- acquired) {
	e := elect.New(b.session(), "team/a", electLayout)
	return func(turns chan<- acquired) {
		tm, err := e.Campaign(b.ctx, []byte(who))
		if assert.NoError(b.t, err) {
			turns <- acquired{who, func() { b.leads(who); assert.NoError(b.t, tm.Resign(b.ctx)) }}
		}
	}
}

func (b *bench) theirCandidate(who string) func(chan<- acquired) {
	e := concurrency.NewElection(b.peer(), "team/a")
	return func(turns chan<- acquired) {
		if assert.NoError(b.t, e.Campaign(b.ctx, who)) {
			turns <- acquired{who, func() { b.leads(who); assert.NoError(b.t, e.Resign(b.ctx)) }}
		}
	}
}

// leads checks that both kinds see who as the leader.
func (b *bench) leads(who string) {
	l, err := elect.LeaderOf(b.ctx, b.pawl, "team/a", electLayout)
	if assert.NoError(b.t, err) {
		assert.Equal(b.t, who, string(l.Value))
	}
	r, err := concurrency.NewElection(b.peer(), "team/a").Leader(b.ctx)
	if assert.NoError(b.t, err) {
		assert.Equal(b.t, who, string(r.Kvs[0].Value))
		assert.Equal(b.t, l.Key, string(r.Kvs[0].Key))
		assert.EqualValues(b.t, l.Token, r.Kvs[0].CreateRevision)
	}
}

func TestCandidatesOfBothKindsQueueTogether(t *testing.T) {
	b := start(t)
	order := b.inOrder("team/a", []func(chan<- acquired){
		b.theirCandidate("etcd 1"), b.ourCandidate("pawl 1"), b.ourCandidate("pawl 2"), b.theirCandidate("etcd 2"), b.ourCandidate("pawl 3"),
	})
	assert.Equal(t, []string{"etcd 1", "pawl 1", "pawl 2", "etcd 2", "pawl 3"}, order)
	order = b.inOrder("team/a", []func(chan<- acquired){b.ourCandidate("pawl 1"), b.theirCandidate("etcd 1")})
	assert.Equal(t, []string{"pawl 1", "etcd 1"}, order)
	_, err := elect.LeaderOf(b.ctx, b.pawl, "team/a", electLayout)
	assert.ErrorIs(t, err, elect.ErrNoLeader)
}

// Both kinds observe each other's terms and values.
func TestObserversOfBothKindsSeeBoth(t *testing.T) {
	b := start(t)
	ctx, cancel := context.WithCancel(b.ctx)
	seen := make(chan string, 16)
	over := make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		for l, err := range elect.Observe(ctx, b.pawl, "e", electLayout) {
			switch {
			case err != nil:
			case l.Token == 0:
				seen <- "-"
			default:
				seen <- string(l.Value)
			}
		}
	}()
	require.Equal(t, "-", <-seen)

	theirs := concurrency.NewElection(b.peer(), "e")
	require.NoError(t, theirs.Campaign(b.ctx, "etcd"))
	require.Equal(t, "etcd", <-seen)
	require.NoError(t, theirs.Proclaim(b.ctx, "etcd again"))
	require.Equal(t, "etcd again", <-seen)

	theirView := concurrency.NewElection(b.peer(), "e").Observe(ctx)
	require.Equal(t, "etcd again", string((<-theirView).Kvs[0].Value))

	won := make(chan *elect.Term, 1)
	s := b.session()
	go func() { // ends with its turn
		tm, err := elect.New(s, "e", electLayout).Campaign(b.ctx, []byte("pawl"))
		assert.NoError(t, err)
		won <- tm
	}()
	b.queued("e", 2)
	require.NoError(t, theirs.Resign(b.ctx))
	tm := <-won
	require.Equal(t, "pawl", <-seen)
	require.Equal(t, "pawl", string((<-theirView).Kvs[0].Value))
	require.NoError(t, tm.Proclaim(b.ctx, []byte("pawl again")))
	require.Equal(t, "pawl again", <-seen)
	require.Equal(t, "pawl again", string((<-theirView).Kvs[0].Value))
	require.NoError(t, tm.Resign(b.ctx))
	require.Equal(t, "-", <-seen)
	cancel()
	<-over
}

// An Election and a Mutex are the same keys there, and so here.
func TestElectionsAndLocksAreTheSameQueue(t *testing.T) {
	b := start(t)
	tm, err := elect.New(b.session(), "n", electLayout).Campaign(b.ctx, []byte("v"))
	require.NoError(t, err)
	assert.ErrorIs(t, concurrency.NewMutex(b.peer(), "n").TryLock(b.ctx), concurrency.ErrLocked)
	_, err = lock.New(b.session(), "n", etcdLayout).TryAcquire(b.ctx)
	assert.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, tm.Resign(b.ctx))
}

func TestRunLeadsBetweenThePeersTerms(t *testing.T) {
	b := start(t)
	theirs := concurrency.NewElection(b.peer(), "e")
	require.NoError(t, theirs.Campaign(b.ctx, "etcd"))
	done := make(chan error, 1)
	led := false
	go func() { // ends with its turn
		done <- elect.Run(b.ctx, b.pawl, "e", elect.RunOptions{EtcdLayout: true, Session: lease.Options{TTL: 5 * time.Second}},
			func(ctx context.Context, tm *elect.Term) error { led = true; return tm.Err() })
	}()
	b.queued("e", 2)
	require.NoError(t, theirs.Resign(b.ctx))
	require.NoError(t, <-done)
	assert.True(t, led)
}
