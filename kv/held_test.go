package kv_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A holding is a Held or a Term.
type holding interface {
	Key() string
	Guard() kv.Guard
	Err() error
}

// change replaces a key that the caller read at revision seen, under a lock.
func change(ctx context.Context, client *pawl.Client, h holding, next []byte, seen int64) (string, error) {
	res, err := client.KV().Txn(ctx, kv.Txn{
		Guards: []kv.Guard{h.Guard()},
		If:     []kv.Cond{kv.ModRevision("config", seen)},
		Then:   []kv.Op{kv.Put("config", next)},
		Else:   []kv.Op{kv.Get("config")},
	})
	switch {
	case errors.Is(err, kv.ErrFenced):
		return "no longer held: nothing was written", err
	case errors.Is(err, kv.ErrUnknown):
		return "may have been written: read it back, under the guard", err
	case err != nil:
		return "not written", err
	case !res.OK:
		return "held, but config has changed to " + string(res.Gets[0].Value), nil
	}
	return "written", nil
}

func onHeldAndTerm(t *testing.T, test func(t *testing.T, cluster *pawltest.Cluster, client *pawl.Client, h holding)) {
	for kind, win := range map[string]func(ctx context.Context, s *pawl.Session) (holding, error){
		"Held": func(ctx context.Context, s *pawl.Session) (holding, error) {
			return lock.New(s, "jobs/42", lock.Options{}).Acquire(ctx)
		},
		"Term": func(ctx context.Context, s *pawl.Session) (holding, error) {
			return elect.New(s, "jobs", elect.Options{}).Campaign(ctx, []byte("me"))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := pawltest.New(t)
				client := cluster.Client(t, pawl.Config{})
				s, err := client.NewSession(t.Context(), lease.Options{})
				require.NoError(t, err)
				h, err := win(t.Context(), s)
				require.NoError(t, err)
				test(t, cluster, client, h)
			})
		})
	}
}

// rule: K3
func TestAConditionOfOnesOwnThatFailsIsDistinguishedFromALostLock(t *testing.T) {
	onHeldAndTerm(t, func(t *testing.T, cluster *pawltest.Cluster, client *pawl.Client, h holding) {
		said, err := change(t.Context(), client, h, []byte("a"), 0)
		require.NoError(t, err)
		assert.Equal(t, "written", said)
		said, err = change(t.Context(), client, h, []byte("b"), 0)
		require.NoError(t, err, "the lock is held: a condition that failed is an answer, and no error")
		assert.Equal(t, "held, but config has changed to a", said)

		cluster.Delete(h.Key())
		require.NoError(t, h.Err(), "this process has not noticed yet: it is etcd that refuses")
		for seen := range int64(2) { // the condition would have failed too, or not
			said, err = change(t.Context(), client, h, []byte("late"), seen)
			require.ErrorIs(t, err, kv.ErrFenced)
			assert.NotErrorIs(t, err, kv.ErrUnknown)
			assert.Equal(t, "no longer held: nothing was written", said)
		}
		res, err := client.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.Get("config")}})
		require.NoError(t, err)
		assert.Equal(t, "a", string(res.Gets[0].Value))
	})
}
