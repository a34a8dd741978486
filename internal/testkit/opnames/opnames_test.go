package opnames_test

import (
	"context"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A request is matched by its operation's name, alone or as a part, and nothing else is.
func TestARequestIsMatchedByItsOperationsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := etcdfake.New(etcdfake.Options{})
		t.Cleanup(f.Close)
		c, err := cluster.Dial(t.Context(), cluster.Config{
			Endpoints: f.Endpoints(), DialOptions: []grpc.DialOption{f.DialOption(), opnames.DialOption()},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		get := func(key string) *pb.TxnRequest {
			return &pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(key)}}
		}
		var parts [][]*pb.TxnRequest
		f.Inject(etcdfake.Rule{Match: func(q etcdfake.Request) bool {
			parts = append(parts, q.Parts("look"))
			return false
		}})
		look := f.Inject(etcdfake.Rule{Op: "look"})
		_, err = c.Txn(t.Context(), cluster.Request{Op: "look"}, get("a"))
		require.NoError(t, err)
		_, err = c.Txn(t.Context(), cluster.Request{Op: "leave"}, get("b"))
		require.NoError(t, err)
		_, err = c.Txn(t.Context(), cluster.Request{Op: "leave" + cluster.Shared + "look"},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Nested(get("b")), txn.Nested(get("c"))}})
		require.NoError(t, err)
		assert.Equal(t, 2, look.Hits())
		require.Len(t, parts, 3)
		assert.Len(t, parts[0], 1)
		assert.Empty(t, parts[1])
		require.Len(t, parts[2], 1)
		assert.Equal(t, "c", string(parts[2][0].Success[0].GetRequestRange().Key))
	})
}

// A client that does not ask for it sends no names.
func TestNothingIsSentWithoutBeingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := etcdfake.New(etcdfake.Options{})
		t.Cleanup(f.Close)
		c, err := cluster.Dial(t.Context(), cluster.Config{Endpoints: f.Endpoints(), DialOptions: []grpc.DialOption{f.DialOption()}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		f.Inject(etcdfake.Rule{Match: func(q etcdfake.Request) bool {
			assert.Empty(t, q.Ops())
			return false
		}})
		_, err = c.Txn(t.Context(), cluster.Request{Op: "look"}, &pb.TxnRequest{Success: []*pb.RequestOp{txn.Get("a")}})
		require.NoError(t, err)
	})
	assert.Nil(t, cluster.Ops(context.Background()))
}
