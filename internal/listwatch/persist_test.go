package listwatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestAReadingOutlastsFailures(t *testing.T) {
	inBubble(t, func(w *fixture) {
		began, tries := time.Now(), 0
		require.NoError(w, listwatch.Persist(w.Context(), w.c, func() error {
			if tries++; tries < 9 {
				return errors.New("failed")
			}
			return nil
		}))
		assert.Equal(w, 9, tries)
		assert.GreaterOrEqual(w, time.Since(began), 4*time.Second/2, "its pauses double, up to 2 s")
		assert.LessOrEqual(w, time.Since(began), 10*time.Second)
	})
}

func TestAReadingThatIsForbiddenIsNotTriedAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tries := 0
		err := listwatch.Persist(w.Context(), w.c, func() error {
			if tries++; tries > 9 {
				return nil
			}
			return rpctypes.ErrGRPCPermissionDenied
		})
		assert.ErrorIs(w, err, rpctypes.ErrGRPCPermissionDenied)
		assert.Equal(w, 1, tries)
	})
}

func TestAReadingEndsWithItsContextOrTheCluster(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		never := func() error {
			if time.Since(began) > time.Minute {
				return nil
			}
			return errors.New("failed")
		}
		assert.ErrorIs(w, listwatch.Persist(ctx, w.c, never), context.DeadlineExceeded)
		assert.Equal(w, 10*time.Second, time.Since(began))
		time.AfterFunc(10*time.Second, func() { _ = w.c.Close() })
		assert.ErrorIs(w, listwatch.Persist(w.Context(), w.c, never), cluster.ErrClosed)
		assert.Equal(w, 20*time.Second, time.Since(began))
		assert.ErrorIs(w, listwatch.Wait(w.Context(), w.c, nil), cluster.ErrClosed)
	})
}

func TestWaitReturnsWithNews(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.news <- struct{}{}
		assert.NoError(w, listwatch.Wait(w.Context(), w.c, w.news))
		ctx, cancel := context.WithCancelCause(w.Context())
		why := errors.New("why")
		cancel(why)
		assert.ErrorIs(w, listwatch.Wait(ctx, w.c, w.news), why)
	})
}
