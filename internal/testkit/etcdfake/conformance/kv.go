package conformance

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

var kvScripts = []script{
	{"put and get", func(r *rig) {
		r.get(span("a", ""))
		r.puts("a", "b", "a")
		r.get(span("a", ""))
		r.put(&pb.PutRequest{Key: []byte("a"), Value: []byte("2"), PrevKv: true})
		r.put(&pb.PutRequest{Key: []byte("c"), PrevKv: true})
		r.get(span("a", "c"))
		r.get(span("a", "\x00"))
		r.get(span("\x00", "\x00"))
		r.get(span("b", "a"))
		r.get(&pb.RangeRequest{Key: []byte("a"), Serializable: true})
	}},
	{"requests that are refused", func(r *rig) {
		r.put(&pb.PutRequest{})
		r.get(&pb.RangeRequest{})
		r.del(&pb.DeleteRangeRequest{})
		r.get(&pb.RangeRequest{Key: []byte("a"), SortOrder: 9})
		r.get(&pb.RangeRequest{Key: []byte("a"), SortTarget: 9})
		r.put(&pb.PutRequest{Key: []byte("a"), Value: []byte("x"), IgnoreValue: true})
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 3, IgnoreLease: true})
		r.put(&pb.PutRequest{Key: []byte("a"), IgnoreValue: true})
		r.put(&pb.PutRequest{Key: []byte("a"), IgnoreLease: true})
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 3})
		r.put(kput("a", string(bytes.Repeat([]byte("x"), 1600<<10))))
		r.get(&pb.RangeRequest{Key: []byte("a"), Revision: 99})
		r.compact(99)
		r.get(span("a", ""))
	}},
	{"put that keeps value or lease", func(r *rig) {
		r.grant(7, 60)
		r.put(&pb.PutRequest{Key: []byte("a"), Value: []byte("1"), Lease: 7})
		r.put(&pb.PutRequest{Key: []byte("a"), Value: []byte("2"), IgnoreLease: true})
		r.get(span("a", ""))
		r.put(&pb.PutRequest{Key: []byte("a"), IgnoreValue: true})
		r.get(span("a", ""))
		r.ttl(7, true)
	}},
	{"delete", func(r *rig) {
		r.puts("a", "b", "c", "d")
		r.del(&pb.DeleteRangeRequest{Key: []byte("x")})
		r.del(&pb.DeleteRangeRequest{Key: []byte("a"), PrevKv: true})
		r.del(&pb.DeleteRangeRequest{Key: []byte("b"), RangeEnd: []byte("d"), PrevKv: true})
		r.del(&pb.DeleteRangeRequest{Key: []byte("\x00"), RangeEnd: []byte("\x00")})
		r.puts("a")
		r.get(span("a", ""))
	}},
	{"every sort and limit", func(r *rig) {
		r.puts("c", "a", "b", "a", "c", "c")
		r.put(kput("d", "a"))
		for target := pb.RangeRequest_SortTarget(0); target < 5; target++ {
			for order := pb.RangeRequest_SortOrder(0); order < 3; order++ {
				for _, limit := range []int64{0, 1, 3} {
					for _, keysOnly := range []bool{false, true} {
						m := span("a", "z")
						m.SortTarget, m.SortOrder, m.Limit, m.KeysOnly = target, order, limit, keysOnly
						r.get(m)
					}
				}
			}
		}
	}},
	{"filters", func(r *rig) {
		r.puts("a", "b", "c", "a", "d")
		for _, m := range []*pb.RangeRequest{
			{MinModRevision: 4}, {MaxModRevision: 4}, {MinCreateRevision: 3}, {MaxCreateRevision: 3},
			{MinModRevision: 3, MaxModRevision: 4}, {MaxCreateRevision: 3, Limit: 1},
			{MaxCreateRevision: 4, Limit: 1, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_DESCEND, KeysOnly: true},
			{CountOnly: true}, {CountOnly: true, MinModRevision: 4}, {CountOnly: true, Limit: 1}, {CountOnly: true, Revision: 3},
		} {
			m.Key, m.RangeEnd = []byte("a"), []byte("z")
			r.get(m)
		}
	}},
	{"keys only has no lease", func(r *rig) {
		r.grant(7, 60)
		r.put(&pb.PutRequest{Key: []byte("a"), Value: []byte("1"), Lease: 7})
		r.get(&pb.RangeRequest{Key: []byte("a")})
		r.get(&pb.RangeRequest{Key: []byte("a"), KeysOnly: true})
		r.get(&pb.RangeRequest{Key: []byte("a"), KeysOnly: true, SortTarget: pb.RangeRequest_VALUE})
		r.get(&pb.RangeRequest{Key: []byte("b"), KeysOnly: true})
	}},
	{"old revisions and compaction", func(r *rig) {
		r.puts("a", "b", "a")
		r.del(&pb.DeleteRangeRequest{Key: []byte("b")})
		r.puts("b")
		at := func(revs ...int64) {
			for _, rev := range revs {
				m := span("a", "z")
				m.Revision = rev
				r.get(m)
				m = etcdapi.Clone(m)
				m.CountOnly = true
				r.get(m)
				r.txn(&pb.TxnRequest{Success: ops(opGet(&pb.RangeRequest{Key: []byte("a"), Revision: rev}))})
			}
		}
		at(1, 2, 3, 4, 5, 6, 7)
		r.compact(4)
		at(1, 3, 4, 5, 6)
		r.compact(4)
		r.compact(3)
		r.compact(6)
		at(5, 6)
		r.puts("c")
		at(7)
	}},
	{"members and status", func(r *rig) {
		m, err := r.members.MemberList(r.ctx, &pb.MemberListRequest{Linearizable: true})
		if err == nil {
			for _, x := range m.Members {
				x.ID, x.Name, x.PeerURLs = 1, "", nil
			}
		}
		r.note("members", m, err)
		s, err := r.maint.Status(r.ctx, &pb.StatusRequest{})
		if err == nil {
			s.Leader, s.RaftIndex, s.RaftAppliedIndex = min(1, s.Leader), 0, 0
			s.DbSize, s.DbSizeInUse = 0, 0
			etcdapi.Clear(s, "dbSizeQuota", "storageVersion", "downgradeInfo") // not of every version
		}
		r.note("status", s, err)
	}},
}
