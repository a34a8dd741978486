package cluster

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// narrow is a connection over a network of one megabit per second.
type narrow struct{ net.Conn }

func (n narrow) Read(b []byte) (int, error) {
	read, err := n.Conn.Read(b[:min(len(b), 1250)])
	time.Sleep(time.Duration(read) * time.Second / 125_000)
	return read, err
}

// An answer that takes long to arrive, because it is large and the network slow, is no silence: it is asked for
// once, although another member would answer a smaller request sooner, and the connection stays.
// rule: C4
func TestALargeAnswerOverASlowNetworkIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		var tries, dials atomic.Int64
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				conn, err := fake.Dial(ctx, addr)
				if err != nil {
					return nil, err
				}
				return narrow{conn}, nil
			}),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if r, ok := req.(*pb.TxnRequest); ok && r.Success[0].GetRequestRange() != nil {
					tries.Add(1)
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for i := range 25 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
				RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "large/%d", i), Value: make([]byte, 10_000)},
			}}}})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		before, start := dials.Load(), time.Now()
		resp, err := c.Txn(t.Context(), Request{Op: "txn"}, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{
			RequestRange: &pb.RangeRequest{Key: []byte("large/"), RangeEnd: []byte("large0")},
		}}}})
		require.NoError(t, err)
		assert.Len(t, resp.Responses[0].GetResponseRange().Kvs, 25)
		assert.Greater(t, time.Since(start), 2*time.Second)
		assert.EqualValues(t, 1, tries.Load())
		assert.Zero(t, dials.Load()-before)
	})
}

// The parts of a handshake are no silence either, although its answer takes three round trips.
// rule: C4
func TestAFreshClientFarAwayMakesOneConnectionToEachMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		for _, m := range fake.Members() {
			m.SetDelay(etcdfake.Fixed(150*time.Millisecond), etcdfake.Fixed(150*time.Millisecond))
		}
		var dials atomic.Int64
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				return fake.Dial(ctx, addr)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 3, dials.Load())
	})
}
