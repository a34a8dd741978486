package cluster

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// linked runs f in a bubble with a cluster of n members whose connections exist; dials counts them.
func linked(t *testing.T, n int, f func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: n})
		t.Cleanup(fake.Close)
		dials := new(atomic.Int64)
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				return fake.Dial(ctx, addr)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		synctest.Wait()
		f(t, fake, c, dials)
	})
}

func TestARequestOnAMuteConnectionIsRepeatedElsewhereWithinHalfASecond(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).BlackHole() // new connections are mute too
		for range 3 {
			start := time.Now()
			_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), 500*time.Millisecond)
		}
	})
}

func TestAWriteOnAMuteConnectionThatMayHaveArrivedIsUnknown(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(0).Swallow()
		start := time.Now()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorContains(t, err, "silent")
		assert.Less(t, time.Since(start), time.Second)
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
}

func TestSilenceAloneEndsNoTry(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		slow := etcdfake.Fixed(time.Second)
		for _, m := range fake.Members() {
			m.SetDelay(slow, slow)
		}
		for range 6 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err, "slow members answer, each as late as the others")
		}
	})
}

func TestASlowMemberCostsFewConnections(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		slow := etcdfake.Fixed(400 * time.Millisecond)
		fake.Member(0).SetDelay(slow, slow)
		for began := time.Now(); time.Since(began) < 5*time.Minute; {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, dials.Load(), int64(3), "one at first, and while its round trip was not known")
	})
}

// The spare is one, whatever the silence lasts, and is closed with it.
func TestAMemberThatStaysMuteHasOneSpare(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		before := dials.Load()
		fake.Member(1).BlackHole()
		for range 20 {
			_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
		}
		assert.LessOrEqual(t, dials.Load()-before, int64(time.Minute/minSwap)+20)
		fake.Member(1).Heal()
		time.Sleep(10 * time.Second)
		_, err := c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, fake.Member(1).Endpoint())}, writing())
		require.NoError(t, err)
	})
}
