package cluster

import (
	"context"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// direct is a request that counts how often it was marshaled without protobuf's wrapper. The method that it
// calls has no counterpart with API 3.7.
type direct struct {
	*pb.TxnRequest
	times *atomic.Int32
}

func (d direct) MarshalToSizedBuffer(into []byte) (int, error) {
	d.times.Add(1)
	return any(d.TxnRequest).(interface{ MarshalToSizedBuffer([]byte) (int, error) }).MarshalToSizedBuffer(into)
}

func TestARequestIsMarshaledWithoutTheWrapperForOldMessages(t *testing.T) {
	if etcdapi.CallOptions() == nil {
		t.Skip("messages of API 3.7 need no wrapper")
	}
	ss := newStubs(t, 1)
	c := ss.connect(ss.config())
	var times atomic.Int32
	answer := new(pb.TxnResponse)
	require.NoError(t, c.Pick().Invoke(context.Background(), etcdapi.TxnMethod, direct{writing(), &times}, answer))
	assert.Equal(t, int32(1), times.Load())
	assert.NotNil(t, answer.Header)
}

// usersCodec counts what it marshals.
type usersCodec struct {
	encoding.CodecV2
	times *atomic.Int32
}

func (c usersCodec) Marshal(v any) (mem.BufferSlice, error) {
	c.times.Add(1)
	return c.CodecV2.Marshal(v)
}

func TestACodecInTheUsersDialOptionsIsUsedInstead(t *testing.T) {
	ss := newStubs(t, 1)
	cfg := ss.config()
	users := usersCodec{encoding.GetCodecV2("proto"), new(atomic.Int32)}
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(users)))
	c := ss.connect(cfg)
	before := users.times.Load()
	_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
	require.NoError(t, err)
	assert.Greater(t, users.times.Load(), before)
}
