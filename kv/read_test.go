package kv

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func keysOf(entries []Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestAPrefixIsReadInKeyOrderWithALimit(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	do(t, c, Txn{Then: []Op{Put("b/2", []byte("two")), Put("a", nil), Put("b/1", []byte("one")), Put("b/3", nil), Put("c", nil)}})
	res := do(t, c, Txn{Then: []Op{Get("a"), GetPrefix("b/", 2), Get("none")}})
	assert.Equal(t, []string{"a", "b/1", "b/2", "none"}, keysOf(res.Gets))
	assert.Equal(t, "one", string(res.Gets[1].Value))
	assert.Positive(t, res.Gets[1].ModRevision)
	assert.True(t, res.More)

	res = do(t, c, Txn{Then: []Op{Delete("b/1"), Put("b/0", nil), GetPrefix("b/", 0), GetPrefix("nothing", 1)}})
	assert.Equal(t, []string{"b/0", "b/2", "b/3"}, keysOf(res.Gets), "what was done before it in the branch is seen")
	assert.False(t, res.More)
	assert.Equal(t, []string{"a", "b/0", "b/2", "b/3", "c"}, keysOf(do(t, c, Txn{Then: []Op{GetPrefix("", 0)}}).Gets))
	assert.False(t, do(t, c, Txn{Then: []Op{GetPrefix("b/", 3)}}).More, "exactly as many as there are")
}

func TestAPrefixIsReadUnderAGuard(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g := lock(t, c, "lock")
	do(t, c, Txn{Then: []Op{Put("a/1", nil), Put("a/2", nil)}})
	txn := Txn{Guards: []Guard{g}, If: []Cond{Absent("a/1")}, Then: []Op{Get("a/1")}, Else: []Op{GetPrefix("a/", 1)}}
	res := do(t, c, txn)
	assert.Equal(t, []string{"a/1"}, keysOf(res.Gets))
	assert.True(t, res.More)
	do(t, c, Txn{Then: []Op{Delete("lock")}})
	_, err := c.Txn(t.Context(), txn)
	assert.ErrorIs(t, err, ErrFenced)
}

func TestGetAndListReadWhatIsThere(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{MaxTxnOps: 2000}))
	rev := do(t, c, Txn{Then: []Op{Put("a", []byte("1"))}}).Revision
	got, err := c.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, Entry{"a", []byte("1"), rev}, got)
	got, err = c.Get(t.Context(), "b")
	require.NoError(t, err)
	assert.Equal(t, Entry{Key: "b"}, got)

	var writes []Op
	var want []string
	for i := range 2*pageKeys + 7 {
		key := fmt.Sprintf("many/%05d", i)
		writes, want = append(writes, Put(key, nil)), append(want, key)
	}
	do(t, c, Txn{Then: writes})
	for _, limit := range []int64{0, 1, pageKeys - 1, pageKeys, pageKeys + 1, 2 * pageKeys, 5000} {
		all, err := c.List(t.Context(), "many/", limit)
		require.NoError(t, err)
		n := len(want)
		if limit > 0 {
			n = min(n, int(limit))
		}
		require.Equal(t, want[:n], keysOf(all), limit)
	}
	all, err := c.List(t.Context(), "none/", 0)
	require.NoError(t, err)
	assert.Empty(t, all)
}

// pages is a server with 5 keys a/0 to a/4 of which one answer holds two.
type pages struct {
	asked []*pb.RangeRequest
	fails map[int]error // by how many pages were requested before
}

func (p *pages) onTxn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	get := r.Success[0].GetRequestRange()
	p.asked = append(p.asked, get)
	if err := p.fails[len(p.asked)-1]; err != nil {
		return nil, err
	}
	out := &pb.RangeResponse{}
	for i := range 5 {
		key := fmt.Sprint("a/", i)
		switch {
		case key < string(get.Key):
		case len(out.Kvs) == 2:
			out.More = true
		default:
			out.Kvs = append(out.Kvs, &mvccpb.KeyValue{Key: []byte(key), ModRevision: 3})
		}
	}
	return &pb.TxnResponse{Header: header(), Succeeded: true, Responses: []*pb.ResponseOp{
		{Response: &pb.ResponseOp_ResponseRange{ResponseRange: out}},
	}}, nil
}

func TestAListIsOfOneRevisionAndBeginsAgainAfterACompaction(t *testing.T) {
	p := &pages{fails: map[int]error{1: rpctypes.ErrGRPCCompacted, 4: status.Error(codes.Unavailable, "the answer is lost")}}
	c := startStub(t, &stub{onTxn: p.onTxn})
	all, err := c.List(t.Context(), "a/", 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"a/0", "a/1", "a/2", "a/3", "a/4"}, keysOf(all))
	var revs []int64
	for _, r := range p.asked {
		revs = append(revs, r.Revision)
		assert.False(t, r.Serializable)
	}
	assert.Equal(t, []int64{0, 10, 0, 10, 10, 10}, revs)
}

func TestAListThatIsCompactedAgainAndAgainSaysSo(t *testing.T) {
	p := &pages{fails: map[int]error{}}
	for i := range 2 * relists {
		if i%2 == 1 {
			p.fails[i] = rpctypes.ErrGRPCCompacted
		}
	}
	_, err := startStub(t, &stub{onTxn: p.onTxn}).List(t.Context(), "a/", 0)
	require.ErrorContains(t, err, "compacted")
	assert.Len(t, p.asked, 2*relists)
}

func TestReadsRefuseWhatCannotBeMeant(t *testing.T) {
	c := startStub(t, &stub{})
	var none context.Context
	for name, call := range map[string]func() error{
		"empty key":      func() error { _, err := c.Get(t.Context(), ""); return err },
		"nil context":    func() error { _, err := c.Get(none, "k"); return err },
		"nil client":     func() error { _, err := (*Client)(nil).Get(t.Context(), "k"); return err },
		"negative limit": func() error { _, err := c.List(t.Context(), "k", -1); return err },
		"nil, of a list": func() error { _, err := (*Client)(nil).List(t.Context(), "k", 0); return err },
		"negative, in a transaction": func() error {
			_, err := c.Txn(t.Context(), Txn{Then: []Op{GetPrefix("k", -1)}})
			return err
		},
	} {
		assert.Error(t, call(), name)
	}
}

// lease is a Lease for tests.
type lease struct {
	id  int64
	err error
}

func (l *lease) ID() int64  { return l.id }
func (l *lease) Err() error { return l.err }

func TestAPutOnASessionNamesItsLease(t *testing.T) {
	var sent atomic.Int64
	c := startStub(t, &stub{onTxn: func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		sent.Store(r.Success[0].GetRequestPut().Lease)
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}})
	_, err := c.Txn(t.Context(), Txn{Then: []Op{OnSession(Put("k", nil), &lease{id: 7})}})
	require.ErrorContains(t, err, "lease not found")
	assert.NotErrorIs(t, err, ErrUnknown, "not applied")
	assert.EqualValues(t, 7, sent.Load())
}

func TestAPutOnASessionThatHasEndedIsRefusedUnsent(t *testing.T) {
	s := &stub{}
	c := startStub(t, s)
	ended := errors.New("it expired")
	on := OnSession(Put("k", nil), &lease{id: 7, err: ended})
	_, err := c.Txn(t.Context(), Txn{Then: []Op{on}})
	assert.ErrorIs(t, err, ended)
	_, err = c.Txn(t.Context(), Txn{If: []Cond{Absent("k")}, Else: []Op{on}})
	assert.ErrorIs(t, err, ended)
	for name, op := range map[string]Op{
		"of a delete":     OnSession(Delete("k"), &lease{id: 7}),
		"of a read":       OnSession(Get("k"), &lease{id: 7}),
		"of nothing":      OnSession(Op{}, &lease{id: 7}),
		"nil session":     OnSession(Put("k", nil), nil),
		"without a lease": OnSession(Put("k", nil), &lease{}),
	} {
		_, err := c.Txn(t.Context(), Txn{Then: []Op{op}})
		assert.Error(t, err, name)
	}
	assert.Zero(t, s.txns.Load())
}
