package etcd

import (
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// View is the store as it was at revision rev; reads see nothing later.
type View struct {
	*Store
	Rev int64
}

// Read answers a range request. The header has only its revision.
func (v View) Read(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if r.Revision > v.Rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	rev := v.Rev
	if r.Revision > 0 {
		rev = r.Revision
	}
	if rev < v.Compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	keys := v.Keys(string(r.Key), string(r.RangeEnd), rev)
	resp := &pb.RangeResponse{
		Header: &pb.ResponseHeader{Revision: v.Rev},
		Count:  int64(len(keys)),
	}
	if r.CountOnly {
		return resp, nil
	}
	kvs := v.load(r, keys, rev)
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return filtered(r, kv) })
	order(r, kvs)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, resp.More = kvs[:r.Limit], true
	}
	if r.KeysOnly {
		for _, kv := range kvs {
			kv.Value = nil
		}
	}
	resp.Kvs = kvs
	return resp, nil
}

// load makes the key-value pairs to be filtered and ordered, but no more of them than the answer
// can need.
func (v View) load(r *pb.RangeRequest, keys []string, rev int64) []*mvccpb.KeyValue {
	if r.Limit > 0 && inKeyOrder(r) && !hasFilter(r) && int64(len(keys)) > r.Limit {
		keys = keys[:r.Limit+1] // one more shows that there are more
	}
	kvs := make([]*mvccpb.KeyValue, 0, len(keys))
	for _, k := range keys {
		at, _ := v.At(k, rev)
		kv := at.Kv(k)
		if r.KeysOnly && r.SortTarget != pb.RangeRequest_VALUE {
			// The server takes keys from its index, which knows no lease.
			kv.Value, kv.Lease = nil, 0
		}
		kvs = append(kvs, kv)
	}
	return kvs
}

func inKeyOrder(r *pb.RangeRequest) bool {
	return r.SortOrder == pb.RangeRequest_NONE ||
		r.SortTarget == pb.RangeRequest_KEY && r.SortOrder == pb.RangeRequest_ASCEND
}

func hasFilter(r *pb.RangeRequest) bool {
	return r.MinModRevision != 0 || r.MaxModRevision != 0 ||
		r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}

func filtered(r *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	return r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision ||
		r.MinModRevision != 0 && kv.ModRevision < r.MinModRevision ||
		r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision ||
		r.MinCreateRevision != 0 && kv.CreateRevision < r.MinCreateRevision
}

// order sorts as the request says. A target without an order means ascending, except for keys,
// which are in that order already.
func order(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	by, ok := sortTargets[r.SortTarget]
	if !ok || r.SortTarget == pb.RangeRequest_KEY && r.SortOrder != pb.RangeRequest_DESCEND {
		return
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if r.SortOrder == pb.RangeRequest_DESCEND {
			a, b = b, a
		}
		return by(a, b)
	})
}

var sortTargets = map[pb.RangeRequest_SortTarget]func(a, b *mvccpb.KeyValue) int{
	pb.RangeRequest_KEY:     func(a, b *mvccpb.KeyValue) int { return slices.Compare(a.Key, b.Key) },
	pb.RangeRequest_VERSION: func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) },
	pb.RangeRequest_CREATE:  func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) },
	pb.RangeRequest_MOD:     func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) },
	pb.RangeRequest_VALUE:   func(a, b *mvccpb.KeyValue) int { return slices.Compare(a.Value, b.Value) },
}
