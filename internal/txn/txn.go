// Package txn builds the parts of the etcd transactions that the engine sends, and reads their answers.
// All of its reads are linearizable, because none sets serializable (rule H3).
//
// Each part is one allocation: what etcd's messages hold by pointer is allocated together with them
// (docs/decisions/allocations.md). A key that several parts name is converted to bytes for each part,
// unless the caller converts it once to save allocations.
package txn

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A Key is an etcd key. Bytes are not copied, and must not be changed while the transaction is
// in use.
type Key interface{ ~string | ~[]byte }

// New makes an empty transaction, allocated with room for a few parts.
func New() *pb.TxnRequest {
	t := &struct {
		pb.TxnRequest
		compare [4]*pb.Compare
		success [3]*pb.RequestOp
	}{}
	t.Compare, t.Success = t.compare[:0], t.success[:0]
	return &t.TxnRequest
}

// CreateIs compares that key's create revision is rev. If rev is 0, it compares that the key does not
// exist.
func CreateIs[K Key](key K, rev int64) *pb.Compare {
	c := &struct {
		pb.Compare
		union pb.Compare_CreateRevision
	}{}
	c.union.CreateRevision = rev
	c.Key, c.Target, c.Result, c.TargetUnion = []byte(key), pb.Compare_CREATE, pb.Compare_EQUAL, &c.union
	return &c.Compare
}

// NoneUnder compares that no key has prefix.
func NoneUnder(prefix string) *pb.Compare {
	c := CreateIs(prefix, 0)
	c.RangeEnd = PrefixEnd(prefix)
	return c
}

// NoneBetween compares that no key is in [from, to).
func NoneBetween(from, to []byte) *pb.Compare {
	c := CreateIs(from, 0)
	c.RangeEnd = to
	return c
}

// ModIs compares that key's modification revision is rev.
func ModIs[K Key](key K, rev int64) *pb.Compare {
	c := &struct {
		pb.Compare
		union pb.Compare_ModRevision
	}{}
	c.union.ModRevision = rev
	c.Key, c.Target, c.Result, c.TargetUnion = []byte(key), pb.Compare_MOD, pb.Compare_EQUAL, &c.union
	return &c.Compare
}

// Put writes key on a lease. If lease is 0, the key is on no lease.
func Put[K Key](key K, value []byte, lease int64) *pb.RequestOp {
	op := &struct {
		pb.RequestOp
		union pb.RequestOp_RequestPut
		put   pb.PutRequest
	}{}
	op.put.Key, op.put.Value, op.put.Lease = []byte(key), value, lease
	op.union.RequestPut = &op.put
	op.Request = &op.union
	return &op.RequestOp
}

// PutKeepingLease writes a key that exists, and leaves it on its lease.
func PutKeepingLease[K Key](key K, value []byte) *pb.RequestOp {
	op := Put(key, value, 0)
	op.GetRequestPut().IgnoreLease = true
	return op
}

// Delete deletes one key.
func Delete[K Key](key K) *pb.RequestOp {
	op := &struct {
		pb.RequestOp
		union pb.RequestOp_RequestDeleteRange
		del   pb.DeleteRangeRequest
	}{}
	op.del.Key = []byte(key)
	op.union.RequestDeleteRange = &op.del
	op.Request = &op.union
	return &op.RequestOp
}

// DeletePrevious deletes one key, and the answer contains the key as it was.
func DeletePrevious[K Key](key K) *pb.RequestOp {
	op := Delete(key)
	op.GetRequestDeleteRange().PrevKv = true
	return op
}

// Nested is a transaction within another. The server evaluates its comparisons before any operation of
// the outer one.
func Nested(t *pb.TxnRequest) *pb.RequestOp {
	op := &struct {
		pb.RequestOp
		union pb.RequestOp_RequestTxn
	}{}
	op.union.RequestTxn = t
	op.Request = &op.union
	return &op.RequestOp
}

// Get reads one key with its value.
func Get[K Key](key K) *pb.RequestOp {
	op := newRange()
	op.get.Key = []byte(key)
	return &op.RequestOp
}

// Stat reads one key without its value. The answer's lease is always 0.
func Stat[K Key](key K) *pb.RequestOp {
	op := newRange()
	op.get.Key, op.get.KeysOnly = []byte(key), true
	return &op.RequestOp
}

// LastUnder reads, without values, the n last-created keys with prefix whose create revision is at most
// below. If below is 0, there is no bound.
func LastUnder(prefix string, n, below int64) *pb.RequestOp {
	op := under(prefix, n, pb.RangeRequest_DESCEND)
	op.get.MaxCreateRevision = below
	return &op.RequestOp
}

// FirstUnder reads, without values, the n first-created keys with prefix.
func FirstUnder(prefix string, n int64) *pb.RequestOp {
	return &under(prefix, n, pb.RangeRequest_ASCEND).RequestOp
}

// NextUnder reads, with values, the n first-created keys with prefix whose create revision is
// at least above.
func NextUnder(prefix string, n, above int64) *pb.RequestOp {
	op := under(prefix, n, pb.RangeRequest_ASCEND)
	op.get.MinCreateRevision, op.get.KeysOnly = above, false
	return &op.RequestOp
}

// rangeOp is a read in one allocation.
type rangeOp struct {
	pb.RequestOp
	union pb.RequestOp_RequestRange
	get   pb.RangeRequest
}

func newRange() *rangeOp {
	op := &rangeOp{}
	op.union.RequestRange = &op.get
	op.Request = &op.union
	return op
}

// under reads, without values, n keys with prefix in the order of their create revisions.
func under(prefix string, n int64, order pb.RangeRequest_SortOrder) *rangeOp {
	return between([]byte(prefix), PrefixEnd(prefix), n, order)
}

// LastBetween reads, without its value, the last-created key in [from, to) whose create revision is at
// most below. If below is 0, there is no bound.
func LastBetween(from, to []byte, below int64) *pb.RequestOp {
	op := between(from, to, 1, pb.RangeRequest_DESCEND)
	op.get.MaxCreateRevision = below
	return &op.RequestOp
}

// Between reads, without values, the first n keys in [from, to), in the order of keys.
func Between(from, to []byte, n int64) *pb.RequestOp {
	op := newRange()
	r := &op.get
	r.Key, r.RangeEnd, r.Limit, r.KeysOnly = from, to, n, true
	return &op.RequestOp
}

// FirstBetween reads, without its value, the first-created key in [from, to).
func FirstBetween(from, to []byte) *pb.RequestOp {
	return &between(from, to, 1, pb.RangeRequest_ASCEND).RequestOp
}

func between(from, to []byte, n int64, order pb.RangeRequest_SortOrder) *rangeOp {
	op := newRange()
	r := &op.get
	r.Key, r.RangeEnd, r.Limit, r.KeysOnly = from, to, n, true
	r.SortOrder, r.SortTarget = order, pb.RangeRequest_CREATE
	return op
}

// PrefixEnd is the end of the range of keys with prefix.
func PrefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0} // all keys
}
