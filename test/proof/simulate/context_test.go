package simulate

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// The context ends after the answer that gives the lock has arrived, and before
// anybody has looked at it.
func TestAContextThatEndsInTheInstantOfSuccessWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := etcdfake.New(etcdfake.Options{})
		defer f.Close()
		var end atomic.Pointer[context.CancelFunc]
		answered := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if cancel := end.Load(); cancel != nil && strings.HasSuffix(method, "/Txn") {
				(*cancel)()
			}
			return err
		})
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: f.Endpoints(), DialOptions: []grpc.DialOption{f.DialOption(), answered}})
		require.NoError(t, err)
		defer c.Close()
		s, err := c.NewSession(context.Background(), lease.Options{TTL: time.Minute})
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		end.Store(&cancel)
		h, err := lock.New(s, names[0], lock.Options{}).Acquire(ctx)
		assert.Nil(t, h)
		require.ErrorIs(t, err, context.Canceled)
		end.Store(nil)
		synctest.Wait()
		assert.Empty(t, f.Keys(names[0]), "what was acquired meanwhile is deleted in the background")
	})
}
