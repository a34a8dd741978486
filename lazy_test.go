package pawl_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// lazily runs f with a lazy client of a cluster that is down.
func lazily(t *testing.T, cfg pawl.Config, f func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client)) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		fake.BlackHole()
		cfg.Lazy = true
		began := time.Now()
		c := dial(t, fake, cfg)
		assert.Zero(t, time.Since(began))
		f(t, fake, c)
	})
}

func TestALazyDialSendsNothingUntilTheFirstCall(t *testing.T) {
	lazily(t, pawl.Config{SyncEvery: time.Minute}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Heal()
		sleep(time.Hour)
		assert.Empty(t, fake.Counts().Received)
		_, err := c.Session(t.Context())
		require.NoError(t, err)
	})
}

func TestALazyClientsFirstCallOfAnyKindReachesTheCluster(t *testing.T) {
	for name, first := range map[string]func(context.Context, *pawl.Client) error{
		"session": func(ctx context.Context, c *pawl.Client) error {
			s, err := c.Session(ctx)
			if err != nil {
				return err
			}
			return lock.New(s, "job", lock.Options{}).Do(ctx, func(context.Context, *lock.Held) error { return nil })
		},
		"kv": func(ctx context.Context, c *pawl.Client) error {
			_, err := c.KV().Txn(ctx, kv.Txn{Then: []kv.Op{kv.Put("k", []byte("v"))}})
			return err
		},
		"leader": func(ctx context.Context, c *pawl.Client) error {
			if _, err := elect.LeaderOf(ctx, c, "job", elect.Options{}); !errors.Is(err, elect.ErrNoLeader) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			lazily(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := first(ctx, c)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, kv.ErrUnknown, "nothing was sent")

				began := time.Now()
				time.AfterFunc(3*time.Second, fake.Heal)
				require.NoError(t, first(t.Context(), c), "it waits for the cluster")
				assert.Less(t, time.Since(began), 10*time.Second)
			})
		})
	}
}

func TestALazyClientGivesUpByItselfWhileNobodyAnswersAndTriesAgain(t *testing.T) {
	lazily(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		began := time.Now()
		_, err := c.NewSession(context.Background(), lease.Options{})
		require.Error(t, err)
		assert.Equal(t, 20*time.Second, time.Since(began))
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		for _, endpoint := range fake.Endpoints() {
			assert.ErrorContains(t, err, endpoint)
		}
		fake.Heal()
		sleep(3 * time.Second)
		_, err = c.NewSession(context.Background(), lease.Options{})
		require.NoError(t, err)
	})
}

func TestManyFirstCallsOfALazyClientReachTheClusterOnce(t *testing.T) {
	lazily(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Heal()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { // ends with its request
				_, err := c.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.Get("k")}})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		synctest.Wait()
		assert.LessOrEqual(t, fake.Counts().Received["Status"], 6, "three endpoints, and once more for those that had not answered")
	})
}

func TestAHandleIsTakenOverByALazyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		s, err := dial(t, fake, pawl.Config{}).NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		h := s.Detach()
		s, err = dial(t, fake, pawl.Config{Lazy: true}).NewSession(t.Context(), lease.Options{Resume: h})
		require.NoError(t, err)
		require.NoError(t, s.Err())
	})
}

func TestALazyClientIsClosedWhileItsFirstCallWaits(t *testing.T) {
	lazily(t, pawl.Config{}, func(t *testing.T, _ *etcdfake.Cluster, c *pawl.Client) {
		done := make(chan error, 1)
		go func() { // ends with Close
			_, err := c.NewSession(context.Background(), lease.Options{})
			done <- err
		}()
		sleep(time.Second)
		began := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-done, lease.ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}

func TestALazyDialRefusesABadConfig(t *testing.T) {
	for _, cfg := range []pawl.Config{{}, {Endpoints: []string{"x"}}, {Endpoints: []string{"a:1"}, Password: "secret"}} {
		cfg.Lazy = true
		c, err := pawl.Dial(t.Context(), cfg)
		require.Error(t, err)
		assert.Nil(t, c)
	}
	c, err := pawl.Dial(t.Context(), pawl.Config{Lazy: true, Endpoints: []string{"a:1"}})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
