package elect_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// A lock of the same name would take the candidate for one of its waiters and write a handoff to
// its key. A term whose value looks like a lock's could not be resumed.
func TestAValueThatLooksLikeALocksIsRefused(t *testing.T) {
	for _, value := range []string{"pawl:x", "pawl/etcd:", `{"pawl":"lock","owner":"x"}`, `{"pawl":"multi","names":[]}`, `{"layout":"etcd","owner":"x"}`} {
		inBubble(t, func(w *fixture) {
			s := w.session()
			_, err := elect.New(s, "e", elect.Options{}).Campaign(w.ctx, []byte(value))
			require.ErrorContains(t, err, "as the keys of locks do")
			err = elect.Run(w.ctx, w.client(), "e", elect.RunOptions{Value: []byte(value)},
				func(context.Context, *elect.Term) error { return errors.New("never led") })
			require.ErrorContains(t, err, "RunOptions.Value")
			assert.Empty(t, w.Keys("e/"))

			term := w.campaign(s, "e", "v")
			require.ErrorContains(t, term.Proclaim(w.ctx, []byte(value)), "as the keys of locks do")
			require.NoError(t, term.Err())
			assert.Equal(t, "v", string(w.Get(term.Key()).Value))
			next, err := w.client().NewSession(w.ctx, lease.Options{Resume: s.Detach()})
			require.NoError(t, err)
			resumed, err := elect.New(next, "e", elect.Options{}).Resume(w.ctx, term.Key(), term.Token())
			require.NoError(t, err)
			require.NoError(t, resumed.Resign(w.ctx))
		})
	}
}
