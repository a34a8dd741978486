package cluster

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A caller's patience is often shorter than an attempt to connect.
func TestDialSaysWhatASilentMemberDoesBeforeAnAttemptToConnectHasEnded(t *testing.T) {
	for _, within := range []time.Duration{time.Second, 5 * time.Second, 9 * time.Second} {
		for endpoint, want := range map[string]string{"10.0.0.2:2379": "says nothing: stopped, overloaded, not an etcd server, or one that wants TLS", "10.0.0.3:2379": "nobody answers there"} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				_, err := Dial(ctx, Config{Endpoints: []string{endpoint}, dial: func(ctx context.Context, _, address string) (net.Conn, error) {
					if address == "10.0.0.3:2379" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					here, there := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, there) }() // ends with here
					return here, nil
				}})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, endpoint+": ")
				require.ErrorContains(t, err, want)
			})
		}
	}
}

// rule: N3
func TestAnIdleConnectionOverASlowNetworkStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		fake.Member(0).SetDelay(etcdfake.Fixed(2*time.Second), etcdfake.Fixed(2*time.Second))
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
		require.NoError(t, err)
		defer c.Close()
		m := c.list()[0]
		watching(t, m)
		wire := m.line.Load().wire.Load()
		time.Sleep(10 * time.Minute)
		assert.Same(t, wire, m.line.Load().wire.Load())
	})
}

// rule: C10
func TestAConnectionIsMadeToANewAddressAsSoonAsTheOldOneIsSilentForATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		var host atomic.Value
		host.Store("10.0.0.2")
		var gone atomic.Bool
		c, err := Dial(t.Context(), Config{
			Endpoints: []string{"etcd.example:2379"},
			lookup:    func(context.Context, string) ([]string, error) { return []string{host.Load().(string)}, nil },
			dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				if gone.Load() && address != "10.0.0.3:2379" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return fake.Dial(ctx, fake.Endpoints()[0])
			},
		})
		require.NoError(t, err)
		defer c.Close()
		gone.Store(true)
		fake.Member(0).Reset()
		synctest.Wait()
		c.Pick() // which begins to connect
		time.Sleep(time.Second)
		host.Store("10.0.0.3")
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		_, err = c.Txn(ctx, Request{Op: "txn", Repeat: Always}, writing())
		require.NoError(t, err)
	})
}
