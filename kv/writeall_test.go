package kv

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

func puts(n int) (writes []Op) {
	for i := range n {
		writes = append(writes, Put(fmt.Sprintf("k%04d", i), []byte{byte(i)}))
	}
	return writes
}

func TestManyKeysAreWrittenInAsManyTransactionsAsNeeded(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{MaxTxnOps: 50}))
	g := lock(t, c, "lock")
	before := do(t, c, Txn{Then: []Op{Get("lock")}}).Revision

	n, err := c.WriteAll(t.Context(), []Guard{g}, puts(1000))
	require.NoError(t, err)
	assert.Equal(t, 1000, n)
	last := do(t, c, Txn{Then: []Op{Get("k0000"), Get("k0999")}})
	assert.Positive(t, last.Gets[0].ModRevision)
	assert.Positive(t, last.Gets[1].ModRevision)
	assert.LessOrEqual(t, last.Revision-before, int64(1000/31+1), "31 to a transaction, after 127 and 63 were refused")
}

// The guards are compared around the writes, and etcd counts both.
func TestNothingIsRefusedForItsSizeWhereTheClusterHasTheDefaultLimit(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	guards := []Guard{lock(t, c, "lock"), lock(t, c, "another")}
	before := do(t, c, Txn{Then: []Op{Get("lock")}}).Revision
	n, err := c.WriteAll(t.Context(), guards, puts(252))
	require.NoError(t, err)
	assert.Equal(t, 252, n)
	assert.EqualValues(t, 2, do(t, c, Txn{Then: []Op{Get("lock")}}).Revision-before)
}

func TestLargeValuesAreWrittenInRequestsThatEtcdTakes(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g := lock(t, c, "lock")
	var writes []Op
	for i := range 10 {
		writes = append(writes, Put(fmt.Sprint("k", i), make([]byte, 400<<10)))
	}
	writes = append(writes, Put("largest", make([]byte, 1200<<10)))
	n, err := c.WriteAll(t.Context(), []Guard{g}, writes)
	require.NoError(t, err)
	assert.Equal(t, 11, n)

	n, err = c.WriteAll(t.Context(), []Guard{g}, []Op{Put("small", nil), Put("too large", make([]byte, 1600<<10))})
	require.ErrorContains(t, err, "too large")
	assert.NotErrorIs(t, err, ErrUnknown)
	assert.Equal(t, 1, n)
}

// received counts what comes from the cluster.
type received struct{ bytes atomic.Int64 }

func (r *received) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *received) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *received) HandleConn(context.Context, stats.ConnStats)                       {}
func (r *received) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		r.bytes.Add(int64(in.Length))
	}
}

func TestValuesThatAreOverwrittenOrDeletedAreNotRead(t *testing.T) {
	var in received
	c := newClient(newEtcd(t, etcdfake.Options{}, grpc.WithStatsHandler(&in)))
	g := lock(t, c, "lock")
	var writes, deletions []Op
	for i := range 10 {
		writes = append(writes, Put(fmt.Sprint("k", i), make([]byte, 100<<10)))
		deletions = append(deletions, Delete(fmt.Sprint("k", i)))
	}
	for _, part := range [][]Op{writes, writes, deletions} {
		before := in.bytes.Load()
		_, err := c.WriteAll(t.Context(), []Guard{g}, part)
		require.NoError(t, err)
		assert.Less(t, in.bytes.Load()-before, int64(10<<10))
	}
}

func TestAKeyMayBeWrittenSeveralTimesInOrder(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g := lock(t, c, "lock")
	n, err := c.WriteAll(t.Context(), []Guard{g}, []Op{
		Put("a", []byte("1")), Put("a", []byte("2")), Delete("a"), Delete("a"), Put("a", []byte("3")), Put("b", nil), Delete("b"),
	})
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	got := do(t, c, Txn{Then: []Op{Get("a"), Get("b")}}).Gets
	assert.Equal(t, "3", string(got[0].Value))
	assert.Zero(t, got[1].ModRevision)
}

func TestWritingStopsWhereTheLockIsLost(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{MaxTxnOps: 10}))
	g := lock(t, c, "lock")
	do(t, c, Txn{Then: []Op{Delete("lock")}})
	n, err := c.WriteAll(t.Context(), []Guard{g}, puts(25))
	require.ErrorIs(t, err, ErrFenced)
	assert.NotErrorIs(t, err, ErrUnknown)
	assert.Zero(t, n)
	assert.Zero(t, do(t, c, Txn{Then: []Op{Get("k0000")}}).Gets[0].ModRevision)
}

func TestWritesBeforeTheLossAreCounted(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{MaxTxnOps: 10}))
	g := lock(t, c, "lock")
	writes := puts(25)
	writes[12] = Delete("lock") // it ends its own lock, in the second part of those that are small enough
	n, err := c.WriteAll(t.Context(), []Guard{g}, writes)
	require.ErrorIs(t, err, ErrFenced)
	assert.NotErrorIs(t, err, ErrUnknown)
	require.Greater(t, n, 12)
	require.Less(t, n, 25)
	got := do(t, c, Txn{Then: []Op{Get(writes[n-1].key), Get(writes[n].key)}}).Gets
	assert.Positive(t, got[0].ModRevision, "the last that was counted")
	assert.Zero(t, got[1].ModRevision, "the first that was not")
}

// This is the exception in WriteAll's comment: the comparison of a key that was absent succeeds
// again after the key was deleted.
func TestALateCopyOfACreationComesBackOnlyAfterADeletion(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g := lock(t, c, "lock")
	late := Txn{Guards: []Guard{g}, If: []Cond{ModRevision("a", 0)}, Then: []Op{Put("a", []byte("late"))}}
	_, err := c.WriteAll(t.Context(), []Guard{g}, []Op{Put("a", nil)})
	require.NoError(t, err)
	assert.False(t, do(t, c, late).OK)
	_, err = c.WriteAll(t.Context(), []Guard{g}, []Op{Delete("a")})
	require.NoError(t, err)
	assert.True(t, do(t, c, late).OK)
	do(t, c, Txn{Then: []Op{Delete("a"), Delete("lock")}})
	_, err = c.Txn(t.Context(), late)
	assert.ErrorIs(t, err, ErrFenced, "and never after the lock is gone")
}

func TestALateCopyOfAPartOverwritesNothingNewer(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g := lock(t, c, "lock")
	first := []Op{Put("a", []byte("old"))}
	mods := do(t, c, Txn{Then: []Op{Get("a")}}).Gets
	copyOfFirst := Txn{Guards: []Guard{g}, If: []Cond{ModRevision("a", mods[0].ModRevision)}, Then: first}

	_, err := c.WriteAll(t.Context(), []Guard{g}, append(first, Put("a", []byte("new"))))
	require.NoError(t, err)
	res := do(t, c, copyOfFirst)
	assert.False(t, res.OK)
	assert.Equal(t, "new", string(do(t, c, Txn{Then: []Op{Get("a")}}).Gets[0].Value))
}

func TestAPartWithALostAnswerIsSentAgain(t *testing.T) {
	var writes atomic.Int32
	c := startStub(t, &stub{onTxn: func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		inner := r.Success[0].GetRequestTxn()
		if inner == nil { // the read of the part's keys
			return &pb.TxnResponse{Header: header(), Succeeded: true, Responses: []*pb.ResponseOp{
				{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}},
			}}, nil
		}
		if writes.Add(1) == 1 {
			return nil, status.Error(codes.Unavailable, "the answer is lost")
		}
		return &pb.TxnResponse{Header: header(), Succeeded: true, Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{
				{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}},
			}}}},
		}}, nil
	}})
	n, err := c.WriteAll(t.Context(), []Guard{{"lock", 5, nil}}, puts(1))
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Equal(t, int32(2), writes.Load())
}

func TestWriteAllRefusesWhatIsNotAGuardedWrite(t *testing.T) {
	c := startStub(t, &stub{})
	g := Guard{"lock", 5, nil}
	for name, call := range map[string]struct {
		guards []Guard
		writes []Op
	}{
		"no guard":   {nil, puts(1)},
		"zero guard": {[]Guard{{}}, puts(1)},
		"zero op":    {[]Guard{g}, []Op{{}}},
		"a read":     {[]Guard{g}, []Op{Get("a")}},
		"empty key":  {[]Guard{g}, []Op{Put("", nil)}},
	} {
		n, err := c.WriteAll(t.Context(), call.guards, call.writes)
		assert.Error(t, err, name)
		assert.Zero(t, n, name)
	}
}
