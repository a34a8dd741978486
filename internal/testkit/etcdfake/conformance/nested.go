package conformance

import (
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// enqueue is a transaction like a queue's. It puts a key that does not exist, on a lease, and reads
// the last two of its queue.
func enqueue(queue, name string, lease int64) *pb.TxnRequest {
	last := span(queue, strings.TrimSuffix(queue, "/")+"0")
	last.KeysOnly, last.Limit, last.SortTarget, last.SortOrder = true, 2, pb.RangeRequest_CREATE, pb.RangeRequest_DESCEND
	return &pb.TxnRequest{
		Compare: []*pb.Compare{cmpTo(queue+name, pb.Compare_EQUAL, create(0))},
		Success: ops(opPut(&pb.PutRequest{Key: []byte(queue + name), Value: []byte(name), Lease: lease}), opGet(last)),
		Failure: ops(opGet(span(queue+name, ""))),
	}
}

// dequeue deletes a key under a comparison, and returns it.
func dequeue(key string, rev int64) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{cmpTo(key, pb.Compare_EQUAL, create(rev))},
		Success: ops(opDel(&pb.DeleteRangeRequest{Key: []byte(key), PrevKv: true})),
	}
}

// one sends transactions as one request.
func (r *rig) one(all ...*pb.TxnRequest) {
	var nested []*pb.RequestOp
	for _, t := range all {
		nested = append(nested, opTxn(t))
	}
	r.txn(&pb.TxnRequest{Success: nested})
}

var nestedScripts = []script{
	{"transactions of several queues in one request", func(r *rig) {
		r.grant(7, 60)
		r.grant(8, 60)
		r.one(enqueue("a/", "1", 7), enqueue("b/", "1", 8), enqueue("c/", "1", 7)) // of one revision
		r.one(enqueue("a/", "1", 7), enqueue("b/", "2", 8), enqueue("d/", "1", 7)) // the first is refused alone
		r.one(dequeue("a/1", 2), dequeue("b/1", 99), enqueue("c/", "2", 7))
		r.one(dequeue("nothing", 2), dequeue("nothing", 3))
		r.one(dequeue("nothing", 2), &pb.TxnRequest{Success: many(1)}) // nothing is written
		r.get(span("a", "z"))
	}},
	{"what transactions of one request see of one another", func(r *rig) {
		r.one(enqueue("q/", "1", 0), enqueue("q/", "2", 0)) // a tie
		r.one(enqueue("q/", "3", 0), enqueue("q/", "3", 0)) // the key twice
		r.one(dequeue("q/1", 2), enqueue("q/", "3", 0))
		r.one(enqueue("q/", "4", 0), dequeue("q/2", 2)) // sees what is gone at the answer's revision
		created := &pb.TxnRequest{Compare: []*pb.Compare{cmpTo("x", pb.Compare_EQUAL, create(0))}, Success: ops(opGet(span("x", "")), opDel(&pb.DeleteRangeRequest{Key: []byte("x"), PrevKv: true}))}
		r.one(&pb.TxnRequest{Success: ops(opPut(kput("x", "1")))}, created) // compared before, read after
		r.one(created, &pb.TxnRequest{Success: ops(opPut(kput("x", "1")))})
		r.one(&pb.TxnRequest{Success: ops(opDel(&pb.DeleteRangeRequest{Key: []byte("q/3")}))}, &pb.TxnRequest{Success: ops(opDel(&pb.DeleteRangeRequest{Key: []byte("q/3")}))})
		r.get(span("a", "z"))
	}},
	{"one part refuses the whole request", func(r *rig) {
		r.grant(7, 60)
		r.one(enqueue("a/", "1", 7), enqueue("b/", "1", 99))
		r.one(enqueue("b/", "1", 99), enqueue("a/", "1", 7))
		kept := &pb.TxnRequest{Success: ops(opPut(&pb.PutRequest{Key: []byte("c/1"), IgnoreLease: true}))}
		r.one(enqueue("a/", "1", 7), kept)
		kept = &pb.TxnRequest{Compare: []*pb.Compare{cmpTo("c/1", pb.Compare_GREATER, create(0))}, Success: kept.Success}
		r.one(enqueue("a/", "1", 7), kept)
		r.put(kput("c/1", "1"))
		r.one(enqueue("a/", "2", 7), kept, dequeue("a/1", 2))
		r.get(span("a", "z"))
	}},
	{"each level takes its operations from those below", func(r *rig) {
		for _, n := range []int{1, 2, 32, 64, 127, 128} {
			for _, more := range []int{0, 1} {
				var all []*pb.TxnRequest
				for range n {
					all = append(all, &pb.TxnRequest{Success: many(max(0, 128-n+more))})
				}
				r.note(fmt.Sprint(n, " of ", 128-n+more), &pb.TxnRequest{}, nil)
				r.one(all...)
			}
		}
	}},
	{"a request that is too large", func(r *rig) {
		var all []*pb.TxnRequest
		for i := range 32 {
			all = append(all, &pb.TxnRequest{Success: ops(opPut(kput(fmt.Sprint("k", i), strings.Repeat("x", 50<<10))))})
		}
		r.one(all...)
		r.one(all[:2]...)
		r.get(&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), KeysOnly: true})
	}},
	{"permissions inside of nested transactions", func(r *rig) {
		r.people()
		r.as("ann", "a")
		r.one(enqueue("a/", "1", 0), enqueue("x/", "1", 0))
		r.one(enqueue("a/", "2", 0), enqueue("b/", "1", 0))
		r.one(enqueue("b/", "1", 0), enqueue("a/", "2", 0))
		r.one(enqueue("a/", "2", 0), dequeue("b/1", 2))
		r.one(enqueue("a/", "2", 0), &pb.TxnRequest{Failure: ops(opGet(span("w", "")))})
		r.get(span("a", "b"))
		r.as("root", "r")
		r.get(span("a", "z"))
		r.grant(7, 60)
		r.put(&pb.PutRequest{Key: []byte("b/poison"), Lease: 7})
		r.as("ann", "a")
		r.one(enqueue("a/", "3", 0), enqueue("x/", "3", 7))
	}},
}
