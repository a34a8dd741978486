package etcdctl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/elect"
)

var options = elect.Options{EtcdLayout: true}

// saidLeader is what etcdctl prints of a leader: its key, and its value.
func (c *ctl) saidLeader() (key, value string) { return c.says(), c.says() }

func TestEtcdctlAndPawlElectOneLeader(t *testing.T) {
	b := start(t)
	theirs := b.etcdctl("elect", "team/a", "etcd")
	key, value := theirs.saidLeader()
	assert.Equal(t, "etcd", value)
	l, err := elect.LeaderOf(b.ctx, b.pawl, "team/a", options)
	require.NoError(t, err)
	assert.Equal(t, key, l.Key)
	assert.Equal(t, "etcd", string(l.Value))

	won := make(chan *elect.Term, 1)
	s := b.session()
	go func() { // ends with its turn
		tm, err := elect.New(s, "team/a", options).Campaign(b.ctx, []byte("pawl"))
		assert.NoError(t, err)
		won <- tm
	}()
	b.queued("team/a", 2)
	second := b.etcdctl("elect", "team/a", "etcd again")
	b.queued("team/a", 3)
	code, _ := theirs.ends(true)
	assert.Zero(t, code)
	tm := <-won
	assert.Greater(t, tm.Token(), l.Token)
	second.waits()
	require.NoError(t, tm.Err())
	require.NoError(t, tm.Resign(b.ctx))
	_, value = second.saidLeader()
	assert.Equal(t, "etcd again", value)
	code, _ = second.ends(true)
	assert.Zero(t, code)
	_, err = elect.LeaderOf(b.ctx, b.pawl, "team/a", options)
	assert.ErrorIs(t, err, elect.ErrNoLeader)
}

func TestEtcdctlAndPawlObserveEachOther(t *testing.T) {
	b := start(t)
	ctx, cancel := context.WithCancel(b.ctx)
	seen, over := make(chan string, 16), make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		for l, err := range elect.Observe(ctx, b.pawl, "e", options) {
			if err == nil {
				seen <- l.Key + "=" + string(l.Value)
			}
		}
	}()
	assert.Equal(t, "=", <-seen, "nobody leads")
	eyes := b.etcdctl("elect", "--listen", "e")
	tm, err := elect.New(b.session(), "e", options).Campaign(b.ctx, []byte("pawl"))
	require.NoError(t, err)
	assert.Equal(t, tm.Key()+"=pawl", <-seen)
	key, value := eyes.saidLeader()
	assert.Equal(t, tm.Key(), key)
	assert.Equal(t, "pawl", value)
	require.NoError(t, tm.Proclaim(b.ctx, []byte("pawl again")))
	assert.Equal(t, tm.Key()+"=pawl again", <-seen)
	_, value = eyes.saidLeader()
	assert.Equal(t, "pawl again", value)

	theirs := b.etcdctl("elect", "e", "etcd")
	b.queued("e", 2)
	require.NoError(t, tm.Resign(b.ctx))
	key, value = theirs.saidLeader()
	assert.Equal(t, "etcd", value)
	assert.Equal(t, key+"=etcd", <-seen)
	_, value = eyes.saidLeader()
	assert.Equal(t, "etcd", value)
	code, _ := theirs.ends(true)
	assert.Zero(t, code)
	assert.Equal(t, "=", <-seen)
	_, _ = eyes.ends(true)
	cancel()
	<-over
}
