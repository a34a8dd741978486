package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// do runs a transaction that must not fail.
func do(t *testing.T, c *Client, txn Txn) Result {
	t.Helper()
	res, err := c.Txn(t.Context(), txn)
	require.NoError(t, err)
	return res
}

// lock makes a lock key again, and returns its Guard.
func lock(t *testing.T, c *Client, key string) Guard {
	t.Helper()
	do(t, c, Txn{Then: []Op{Delete(key)}})
	res := do(t, c, Txn{Then: []Op{Put(key, nil)}})
	return Guard{key, fencing.Token(res.Revision), nil}
}

func TestOperationsAndConditions(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	res := do(t, c, Txn{Then: []Op{Put("a", []byte("1")), Get("a"), Delete("b"), Get("b")}})
	assert.True(t, res.OK)
	a := Entry{Key: "a", Value: []byte("1"), ModRevision: res.Revision}
	assert.Equal(t, []Entry{a, {Key: "b"}}, res.Gets)

	for name, tc := range map[string]struct {
		cond Cond
		want bool
	}{
		"absent of one that is there":   {Absent("a"), false},
		"absent of one that is not":     {Absent("b"), true},
		"right revision":                {ModRevision("a", res.Revision), true},
		"wrong revision":                {ModRevision("a", res.Revision-1), false},
		"revision 0 of one that is not": {ModRevision("b", 0), true},
		"revision 0 of one that is":     {ModRevision("a", 0), false},
		"right value":                   {Value("a", []byte("1")), true},
		"wrong value":                   {Value("a", []byte("2")), false},
		"empty value of none":           {Value("b", nil), false},
	} {
		res := do(t, c, Txn{If: []Cond{tc.cond}, Then: []Op{Get("a")}, Else: []Op{Get("b"), Get("a")}})
		assert.Equal(t, tc.want, res.OK, name)
		if tc.want {
			assert.Equal(t, []Entry{a}, res.Gets, name)
		} else {
			assert.Equal(t, []Entry{{Key: "b"}, a}, res.Gets, name)
		}
		res = do(t, c, Txn{If: []Cond{tc.cond}}) // without operations
		assert.Equal(t, tc.want, res.OK, name)
		assert.Empty(t, res.Gets, name)
	}
	res = do(t, c, Txn{If: []Cond{Absent("b"), Absent("a")}, Then: []Op{Put("c", nil)}})
	assert.False(t, res.OK, "all must hold")
	res = do(t, c, Txn{Then: []Op{Delete("a"), Delete("a"), Get("c")}})
	assert.Equal(t, []Entry{{Key: "c"}}, res.Gets)
}

// K3.
func TestAHeldLocksTransactionRunsItsBranch(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	g, h := lock(t, c, "lock/1"), lock(t, c, "lock/2")
	both := []Guard{g, h}
	res := do(t, c, Txn{Guards: both, Then: []Op{Put("k", []byte("1")), Get("k")}})
	assert.True(t, res.OK)
	assert.Equal(t, []Entry{{"k", []byte("1"), res.Revision}}, res.Gets)
	res = do(t, c, Txn{Guards: both, If: []Cond{Value("k", []byte("1"))}, Then: []Op{Put("k", []byte("2"))}, Else: []Op{Get("k")}})
	assert.True(t, res.OK)
	assert.Empty(t, res.Gets)
	res = do(t, c, Txn{Guards: both, If: []Cond{Value("k", []byte("1"))}, Then: []Op{Put("k", []byte("3"))}, Else: []Op{Get("k")}})
	assert.False(t, res.OK, "the caller's own condition failed: no error")
	assert.Equal(t, "2", string(res.Gets[0].Value))
	assert.True(t, do(t, c, Txn{Guards: both}).OK, "nothing but guards")
	assert.False(t, do(t, c, Txn{Guards: both, If: []Cond{Absent("k")}}).OK)
	do(t, c, Txn{Then: []Op{Put("lock/1", []byte("another value"))}})
	assert.True(t, do(t, c, Txn{Guards: both, Then: []Op{Get("k")}}).OK, "a put on the lock key leaves its create revision")
}

// K3: a stale holder runs neither branch.
// rule: K3
func TestAStaleGuardRunsNeitherBranch(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{}))
	stale, good := lock(t, c, "lock/stale"), lock(t, c, "lock/good")
	lock(t, c, "lock/stale")
	gone := lock(t, c, "lock/gone")
	do(t, c, Txn{Then: []Op{Delete("lock/gone")}})
	for name, guards := range map[string][]Guard{"stale": {stale}, "gone": {gone}, "one of two": {good, stale}, "both": {gone, stale}} {
		for _, txn := range []Txn{
			{Guards: guards},
			{Guards: guards, Then: []Op{Put("k", nil)}},
			{Guards: guards, If: []Cond{Absent("k")}, Then: []Op{Put("k", nil)}, Else: []Op{Put("k", nil)}},
			{Guards: guards, If: []Cond{ModRevision("k", 1)}, Then: []Op{Put("k", nil)}, Else: []Op{Put("k", nil)}},
		} {
			_, err := c.Txn(t.Context(), txn)
			require.ErrorIs(t, err, ErrFenced, name)
			require.NotErrorIs(t, err, ErrUnknown, name)
		}
		assert.Zero(t, do(t, c, Txn{Then: []Op{Get("k")}}).Gets[0].ModRevision, name)
	}
	_, err := c.Txn(t.Context(), Txn{Guards: []Guard{good, gone, stale}})
	now := do(t, c, Txn{Then: []Op{Get("lock/stale")}}).Gets[0].ModRevision
	assert.EqualError(t, err, fmt.Sprintf(`kv: txn: lock key "lock/gone" is gone, lock key "lock/stale" has create revision %d instead of %d: %v`, now, stale.token, ErrFenced))
}

// T3.
func TestAGuardThisProcessKnowsToBeLostIsRefusedUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{onTxn: func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
			return &pb.TxnResponse{Header: header(), Succeeded: true, Responses: []*pb.ResponseOp{{}}}, nil
		}}
		c := startStub(t, s)
		h := new(holder)
		g := Guard{"lock/1", 5, h}
		do(t, c, Txn{Guards: []Guard{g}, Then: []Op{Put("k", nil)}})
		h.err = errors.New("lease expired")
		_, err := c.Txn(t.Context(), Txn{Guards: []Guard{g}, Then: []Op{Put("k", nil)}})
		require.ErrorIs(t, err, ErrFenced)
		require.ErrorIs(t, err, h.err)
		assert.EqualError(t, err, `kv: txn: lock key "lock/1": fenced: the lock is no longer held: lease expired`)
		assert.EqualValues(t, 1, s.txns.Load())
	})
}

func TestMistakesAreReportedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := startStub(t, s)
		for want, txn := range map[string]Txn{
			"it is empty": {},
			"guard 0: the zero Guard stands for no lock":     {Guards: []Guard{{}}},
			"guard 1: the zero Guard stands for no lock":     {Guards: []Guard{{"k", 1, nil}, {"k", 0, nil}}},
			"condition 0: the zero Cond is no condition":     {If: []Cond{{}}},
			"condition 1: the key is empty":                  {If: []Cond{Absent("k"), Absent("")}},
			`condition 0: key "k": revision -1 is negative`:  {If: []Cond{ModRevision("k", -1)}},
			"Then, operation 0: the zero Op is no operation": {Then: []Op{{}}},
			"Then, operation 0: the key is empty":            {Then: []Op{Put("", nil)}},
			"Else, operation 0: the key is empty":            {If: []Cond{Absent("k")}, Else: []Op{Get("")}},
			"an Else without If would never apply":           {Then: []Op{Get("k")}, Else: []Op{Get("k")}},
			`Then, operation 1: key "k" is written twice`:    {Then: []Op{Put("k", nil), Put("k", nil)}},
			`Then, operation 2: key "k" is written twice`:    {Then: []Op{Put("k", nil), Get("k"), Delete("k")}},
			`Else, operation 1: key "k" is written twice`:    {If: []Cond{Absent("k")}, Else: []Op{Delete("k"), Put("k", nil)}},
		} {
			_, err := c.Txn(t.Context(), txn)
			assert.EqualError(t, err, "kv: txn: "+want)
		}
		var none context.Context
		_, err := c.Txn(none, Txn{Then: []Op{Get("k")}})
		assert.EqualError(t, err, "kv: txn: the context is nil")
		for _, c := range []*Client{nil, {}, newClient(nil)} {
			_, err = c.Txn(t.Context(), Txn{Then: []Op{Get("k")}})
			assert.EqualError(t, err, "kv: txn: the client is nil")
		}
		assert.Zero(t, s.txns.Load())
	})
}

// Hazard A5.
func TestAWriteIsSentOnceWhenItsOutcomeIsUnknown(t *testing.T) {
	for _, failure := range []error{rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCLeaderChanged, context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			s := &stub{onTxn: func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) { return nil, failure }}
			_, err := startStub(t, s).Txn(t.Context(), Txn{Guards: []Guard{{"l", 1, nil}}, Then: []Op{Put("k", nil)}})
			require.ErrorIs(t, err, ErrUnknown)
			assert.NotErrorIs(t, err, ErrFenced)
			assert.EqualValues(t, 1, s.txns.Load())
		})
	}
}

func TestAWriteThatWasNotAppliedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stub)
		s.onTxn = func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
			if s.txns.Load() < 3 {
				return nil, rpctypes.ErrGRPCNoLeader
			}
			return &pb.TxnResponse{Header: header(), Succeeded: true, Responses: []*pb.ResponseOp{{}}}, nil
		}
		assert.True(t, do(t, startStub(t, s), Txn{Then: []Op{Put("k", nil)}}).OK)
	})
}

func TestATryOutlastsTheServersOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{onTxn: func(ctx context.Context, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		c := startStub(t, s)
		began := time.Now()
		_, err := c.Txn(context.Background(), Txn{Then: []Op{Put("k", nil)}})
		require.ErrorIs(t, err, ErrUnknown)
		assert.Equal(t, 8*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err = c.Txn(ctx, Txn{Then: []Op{Put("k", nil)}})
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		began = time.Now()
		_, err = c.Txn(context.Background(), Txn{Then: []Op{Get("k")}})
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnknown, "there was nothing to apply")
		assert.Equal(t, 20*time.Second, time.Since(began))
	})
}

// F14, H3.
// rule: H3
func TestEveryTransactionHoldsALinearizableRange(t *testing.T) {
	g, cond, op := Guard{"lock", 1, nil}, Absent("k"), Put("k", nil)
	for _, txn := range []Txn{
		{Guards: []Guard{g}}, {If: []Cond{cond}}, {Guards: []Guard{g}, If: []Cond{cond}}, {Then: []Op{Get("k")}},
		{If: []Cond{cond}, Else: []Op{Get("k")}}, {Guards: []Guard{g}, Then: []Op{op}}, {If: []Cond{cond}, Then: []Op{op}},
	} {
		ranges, writes, serializable := count(txn.request())
		assert.Zero(t, serializable)
		assert.Positive(t, ranges+writes)
	}
}

func count(r *pb.TxnRequest) (ranges, writes, serializable int) {
	for _, op := range append(append([]*pb.RequestOp(nil), r.Success...), r.Failure...) {
		switch req := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			ranges++
			if req.RequestRange.Serializable {
				serializable++
			}
		case *pb.RequestOp_RequestTxn:
			r, w, s := count(req.RequestTxn)
			ranges, writes, serializable = ranges+r, writes+w, serializable+s
		default:
			writes++
		}
	}
	return ranges, writes, serializable
}

func TestMoreOperationsThanTheClusterAllowsAreSaidPlainly(t *testing.T) {
	c := newClient(newEtcd(t, etcdfake.Options{MaxTxnOps: 2}))
	_, err := c.Txn(t.Context(), Txn{Then: []Op{Put("a", nil), Put("b", nil), Put("c", nil)}})
	require.ErrorContains(t, err, "kv: txn: 0 guards, 0 conditions and 3 and 0 operations are more than the cluster's --max-txn-ops allows")
	assert.NotErrorIs(t, err, ErrUnknown)
}

func TestAClosedClientSaysSo(t *testing.T) {
	cl := newEtcd(t, etcdfake.Options{})
	c := newClient(cl)
	require.NoError(t, cl.Close())
	_, err := c.Txn(t.Context(), Txn{Then: []Op{Put("k", nil)}})
	require.ErrorIs(t, err, cluster.ErrClosed)
	require.NotErrorIs(t, err, ErrUnknown)
	assert.True(t, strings.HasPrefix(err.Error(), "kv: txn: "))
}

func TestAnAnswerThatDoesNotFitIsUnknown(t *testing.T) {
	guards, cond := []Guard{{"l", 1, nil}}, []Cond{Absent("k")}
	for name, tc := range map[string]struct {
		txn    Txn
		answer *pb.TxnResponse
	}{
		"no responses":          {Txn{Then: []Op{Get("k")}}, &pb.TxnResponse{Succeeded: true}},
		"no range":              {Txn{Then: []Op{Get("k")}}, &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{}}}},
		"no inner transaction":  {Txn{Guards: guards, If: cond}, &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{}}}},
		"failed without reason": {Txn{Then: []Op{Put("k", nil)}}, &pb.TxnResponse{Responses: []*pb.ResponseOp{{}}}},
	} {
		_, err := tc.txn.result(tc.answer)
		assert.ErrorIs(t, err, ErrUnknown, name)
	}
	_, err := (&Txn{Guards: guards}).result(&pb.TxnResponse{})
	assert.ErrorIs(t, err, ErrFenced)
}
