// Package txn builds the parts of etcd transactions that the engine sends, and
// reads their answers. Every one of its reads is linearizable: none sets
// serializable (rule H3).
package txn

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// CreateIs compares key's create revision with rev; 0: the key is not there.
func CreateIs(key string, rev int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev},
	}
}

// Exists compares for key being there.
func Exists(key string) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_GREATER,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 0},
	}
}

// NoneUnder compares for no key beginning with prefix.
func NoneUnder(prefix string) *pb.Compare {
	c := CreateIs(prefix, 0)
	c.RangeEnd = PrefixEnd(prefix)
	return c
}

// ModIs compares key's modification revision with rev.
func ModIs(key string, rev int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: rev},
	}
}

// Put writes key on a lease; lease 0: on none.
func Put(key string, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: lease}}}
}

// Delete deletes one key.
func Delete(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

// Get reads one key with its value.
func Get(key string) *pb.RequestOp { return rangeOp(&pb.RangeRequest{Key: []byte(key)}) }

// Look reads one key without its value. The answer's lease is always 0.
func Look(key string) *pb.RequestOp {
	return rangeOp(&pb.RangeRequest{Key: []byte(key), KeysOnly: true})
}

// LastUnder reads, without values, the n last-created keys that begin with
// prefix and were created at below or earlier; below 0: no bound.
func LastUnder(prefix string, n, below int64) *pb.RequestOp {
	return rangeOp(&pb.RangeRequest{
		Key: []byte(prefix), RangeEnd: PrefixEnd(prefix), Limit: n, KeysOnly: true, MaxCreateRevision: below,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE,
	})
}

// FirstUnder reads, without its value, the first-created key that begins with
// prefix.
func FirstUnder(prefix string) *pb.RequestOp {
	return rangeOp(&pb.RangeRequest{
		Key: []byte(prefix), RangeEnd: PrefixEnd(prefix), Limit: 1, KeysOnly: true,
		SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE,
	})
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// PrefixEnd is the end of the range of keys that begin with prefix.
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

// KVs are the keys that the i-th operation of the branch that ran has read.
func KVs(resp *pb.TxnResponse, i int) []*mvccpb.KeyValue {
	if i >= len(resp.Responses) {
		return nil
	}
	return resp.Responses[i].GetResponseRange().GetKvs()
}

// KV is the one key that the i-th operation has read, or nil.
func KV(resp *pb.TxnResponse, i int) *mvccpb.KeyValue {
	if kvs := KVs(resp, i); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}
