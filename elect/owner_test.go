package elect_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// owned returns the owner keys that exist.
func (w *fixture) owned() (all []string) {
	for _, key := range w.Keys("//pawl/") {
		if strings.HasSuffix(key, "/owner") {
			all = append(all, key)
		}
	}
	return all
}

func (w *fixture) ownedBy(s pawl.Sessions, owner string) *elect.Election {
	return elect.New(s, "n", elect.Options{Owner: owner})
}

// A candidate's Owner is shown in place of its session's, from its first moment to its last. The
// value that observers see is only the candidate's.
func TestACandidateCanHaveAnOwnerOfItsOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, err := w.client().NewSession(w.ctx, lease.Options{Owner: "daemon"})
		require.NoError(t, err)
		began := time.Now()
		term, err := w.ownedBy(s, `uid:7 "x"`).Campaign(w.ctx, []byte("v"))
		require.NoError(t, err)
		waiting := make(chan error, 1)
		ctx, cancel := context.WithCancel(w.ctx)
		go func() {
			_, err := w.ownedBy(s, "second").Campaign(ctx, nil)
			waiting <- err
		}()
		synctest.Wait()
		for _, value := range []string{"v", "another"} {
			require.NoError(t, term.Proclaim(w.ctx, []byte(value)))
			assert.Equal(t, value, string(w.Get(term.Key()).Value))
			q, err := elect.New(w.client(), "n", elect.Options{}).Queue(w.ctx)
			require.NoError(t, err)
			require.Len(t, q, 2)
			assert.Equal(t, []string{`uid:7 "x"`, "second"}, []string{q[0].Owner, q[1].Owner})
			assert.True(t, q[0].Since.Equal(began), "since its own key was put")
		}
		assert.Len(t, w.owned(), 2)
		cancel()
		require.Error(t, <-waiting)
		synctest.Wait()
		assert.Len(t, w.owned(), 1, "one that gives up leaves none")
		require.NoError(t, term.Resign(w.ctx))
		assert.Empty(t, w.owned(), "nor does one that resigns")

		plain := w.campaign(s, "n", "v")
		q, err := elect.New(s, "n", elect.Options{}).Queue(w.ctx)
		require.NoError(t, err)
		assert.Equal(t, "daemon", q[0].Owner)
		assert.Empty(t, w.owned())
		require.NoError(t, plain.Resign(w.ctx))

		_, err = w.ownedBy(s, strings.Repeat("x", 1025)).Campaign(w.ctx, nil)
		assert.ErrorContains(t, err, "Options.Owner has 1025 bytes")
	})
}

// Whatever ends a term removes the owner key, or leaves it to the lease.
func TestAnOwnerKeyGoesWithItsTerm(t *testing.T) {
	for what, end := range map[string]func(w *fixture, term *elect.Term){
		"deleted":     func(w *fixture, term *elect.Term) { w.Delete(term.Key()) },
		"overwritten": func(w *fixture, term *elect.Term) { w.Put(term.Key(), "x", 0) },
		"taken over, and resumed": func(w *fixture, term *elect.Term) {
			key, token := term.Key(), term.Token()
			next, err := w.client().NewSession(w.ctx, lease.Options{Resume: term.Session().Detach()})
			require.NoError(w.t, err)
			term, err = elect.New(next, "n", elect.Options{}).Resume(w.ctx, key, token)
			require.NoError(w.t, err)
			q, err := elect.New(next, "n", elect.Options{}).Queue(w.ctx)
			require.NoError(w.t, err)
			assert.Equal(w.t, "ann", q[0].Owner)
			require.NoError(w.t, term.Resign(w.ctx))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				term, err := w.ownedBy(w.session(), "ann").Campaign(w.ctx, nil)
				require.NoError(t, err)
				time.Sleep(time.Second) // its watch is armed
				require.Len(t, w.owned(), 1)
				end(w, term)
				time.Sleep(time.Minute)
				assert.ErrorIs(t, term.Err(), elect.ErrLost)
				assert.Empty(t, w.owned())
			})
		})
	}
}

// A candidate whose enqueue's answer is lost, applied or not, exists once, with its owner.
func TestALostAnswerLeavesNoOwnerKeyBehind(t *testing.T) {
	for _, applied := range []bool{false, true} {
		inBubble(t, func(w *fixture) {
			s := w.session()
			w.Inject(etcdfake.Rule{Op: "enqueue", Times: 1, Lose: !applied, Err: status.Error(codes.Unavailable, "lost")})
			term, err := w.ownedBy(s, "ann").Campaign(w.ctx, nil)
			require.NoError(t, err)
			assert.Len(t, w.owned(), 1)
			require.NoError(t, term.Resign(w.ctx))
			time.Sleep(time.Minute)
			assert.Empty(t, w.owned())
			h, err := lock.New(s, "n", lock.Options{}).TryAcquire(w.ctx)
			require.NoError(t, err)
			require.NoError(t, h.Release(w.ctx))
		})
	}
}
