package elect_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// etcd refuses a request over --max-request-bytes, 1.5 MiB; gRPC, before etcd sees
// it, one of 2 MiB. No name and no later time makes either smaller.
func TestAValueThatIsTooLargeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	session, err := c.Session(t.Context())
	require.NoError(t, err)
	for want, size := range map[string]int{"too large": 1600 << 10, "larger than max": 3 << 20} {
		ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
		_, err := elect.New(session, "e", elect.Options{}).Campaign(ctx, make([]byte, size))
		require.ErrorContains(t, err, want)
		require.NoError(t, ctx.Err())
		err = elect.Run(ctx, c, "e", elect.RunOptions{Value: make([]byte, size)},
			func(context.Context, *elect.Term) error { return errors.New("never led") })
		require.ErrorContains(t, err, want)
		require.NoError(t, ctx.Err())

		// A Proclaim says so too. The term continues, and so do its values.
		tm, err := elect.New(session, "e", elect.Options{}).Campaign(ctx, nil)
		require.NoError(t, err)
		require.ErrorContains(t, tm.Proclaim(ctx, make([]byte, size)), want)
		require.NoError(t, tm.Proclaim(ctx, []byte("small")))
		l, err := elect.LeaderOf(ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, "small", string(l.Value))
		require.NoError(t, tm.Resign(ctx))
		_, err = elect.LeaderOf(ctx, c, "e", elect.Options{})
		require.ErrorIs(t, err, elect.ErrNoLeader)
		cancel()
	}
}
