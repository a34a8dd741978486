package elect_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

func TestTryCampaignFailsAtOnceWhereAnotherLeadsOrIsACandidate(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		tm, err := elect.New(s, "e", elect.Options{}).TryCampaign(w.ctx, []byte("a"))
		require.NoError(t, err)
		assert.Equal(t, "a", string(w.Get(tm.Key()).Value))
		other := elect.New(w.session(), "e", elect.Options{})
		rev := w.Revision()
		began := time.Now()
		_, err = other.TryCampaign(w.ctx, []byte("b"))
		assert.ErrorIs(t, err, elect.ErrBusy)
		assert.ErrorIs(t, err, lock.ErrBusy, "the same value")
		assert.ErrorContains(t, err, tm.Key(), "it names the holder")
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, rev, w.Revision(), "nothing is written")
		_, err = other.TryCampaign(w.ctx, []byte(`{"pawl":"lock",`))
		assert.ErrorContains(t, err, "begins with")
		require.NoError(t, tm.Resign(w.ctx))
		tm, err = other.TryCampaign(w.ctx, []byte("b"))
		require.NoError(t, err)
		require.NoError(t, tm.Resign(w.ctx))
		assert.Empty(t, w.Keys("e/"))
	})
}

func TestATermSaysWhatItIsAndWhetherItLasts(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tm := w.campaign(w.session(), "e", "")
		about := fmt.Sprintf(`term "e" (key %q, token %d): `, tm.Key(), tm.Token())
		assert.Equal(t, about+"held", tm.String())
		require.NoError(t, tm.Resign(w.ctx))
		assert.Equal(t, about+"resigned", tm.String())
		want := slog.GroupValue(slog.String("name", "e"), slog.String("key", tm.Key()), slog.Int64("token", int64(tm.Token())),
			slog.Bool("held", false), slog.String("cause", "resigned"))
		assert.True(t, want.Equal(tm.LogValue()))
		assert.Equal(t, `term "" (key "", token 0): not held: nil handle`, (*elect.Term)(nil).String())
	})
}

func TestALeaderSaysItsRevisionsAndItsLease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		tm := w.campaign(s, "e", "a")
		c := w.client()
		seen := make(chan elect.Leader, 10)
		w.background(func(ctx context.Context) {
			for l, err := range elect.Observe(ctx, c, "e", elect.Options{}) {
				if err == nil {
					seen <- l
				}
			}
		})
		require.NoError(t, tm.Proclaim(w.ctx, []byte("b")))
		synctest.Wait()
		l, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		at := w.Get(tm.Key())
		for _, l := range []elect.Leader{l, last(seen)} {
			assert.Equal(t, "b", string(l.Value))
			assert.Equal(t, []int64{int64(l.Token), at.ModRevision, s.ID()}, []int64{l.CreateRevision, l.ModRevision, l.Lease})
		}
		require.NoError(t, tm.Resign(w.ctx))
		synctest.Wait()
		l = last(seen)
		assert.Zero(t, []int64{int64(l.Token) + l.CreateRevision + l.ModRevision + l.Lease}[0], "nobody leads")
		assert.Positive(t, l.Revision)
	})
}

// last returns the last element of c, which has at least one.
func last[T any](c <-chan T) (v T) {
	for {
		select {
		case v = <-c:
		default:
			return v
		}
	}
}
