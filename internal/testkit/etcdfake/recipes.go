package etcdfake

import (
	"slices"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// These are ready-made parts of rules.

// OnKey matches requests that name a key, or begin a range, with that prefix, including comparisons
// and nested operations of transactions, and new watches.
func OnKey(prefix string) func(Request) bool {
	return func(r Request) bool {
		return slices.ContainsFunc(keysOf(r.Message), func(k []byte) bool { return strings.HasPrefix(string(k), prefix) })
	}
}

func keysOf(m etcdapi.Message) (keys [][]byte) {
	switch r := m.(type) {
	case *pb.RangeRequest:
		return [][]byte{r.Key}
	case *pb.PutRequest:
		return [][]byte{r.Key}
	case *pb.DeleteRangeRequest:
		return [][]byte{r.Key}
	case *pb.WatchRequest:
		if c := r.GetCreateRequest(); c != nil {
			return [][]byte{c.Key}
		}
	case *pb.TxnRequest:
		for _, c := range r.Compare {
			keys = append(keys, c.Key)
		}
		for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
			for _, op := range branch {
				keys = append(keys, keysOf(operation(op))...)
			}
		}
	}
	return keys
}

func operation(op *pb.RequestOp) etcdapi.Message {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return o.RequestRange
	case *pb.RequestOp_RequestPut:
		return o.RequestPut
	case *pb.RequestOp_RequestDeleteRange:
		return o.RequestDeleteRange
	case *pb.RequestOp_RequestTxn:
		return o.RequestTxn
	}
	return nil
}

// Writes matches requests that can change a key: puts, deletions, and transactions that do more
// than read.
func Writes(r Request) bool {
	switch m := r.Message.(type) {
	case *pb.PutRequest, *pb.DeleteRangeRequest:
		return true
	case *pb.TxnRequest:
		return !etcd.ReadOnly(m)
	}
	return false
}

// OnLease matches requests that grant, renew, query or revoke a lease.
func OnLease(id int64) func(Request) bool {
	return func(r Request) bool {
		m, ok := r.Message.(interface{ GetID() int64 })
		return ok && m.GetID() == id
	}
}

// EditHeader alters the headers of answers, for a stale term, an older revision or another cluster.
func EditHeader(f func(*pb.ResponseHeader)) func(Request, etcdapi.Message) {
	return func(_ Request, answer etcdapi.Message) {
		if m, ok := answer.(interface{ GetHeader() *pb.ResponseHeader }); ok && m.GetHeader() != nil {
			f(m.GetHeader())
		}
	}
}

// EditTTL alters the TTL of a renewal's answer.
func EditTTL(ttl int64) func(Request, etcdapi.Message) {
	return func(_ Request, answer etcdapi.Message) {
		if m, ok := answer.(*pb.LeaseKeepAliveResponse); ok {
			m.TTL = ttl
		}
	}
}

// Confirm forges answers to renewals that say that the lease lives, whether it does or not, and
// renews nothing. The header is the member's, as altered by f.
func Confirm(ttl int64, f func(*pb.ResponseHeader)) func(Request) (etcdapi.Message, error) {
	return func(r Request) (etcdapi.Message, error) {
		r.Member.c.mu.Lock()
		h := r.Member.fill(&pb.ResponseHeader{})
		r.Member.c.mu.Unlock()
		if f != nil {
			f(h)
		}
		m, _ := r.Message.(*pb.LeaseKeepAliveRequest)
		return &pb.LeaseKeepAliveResponse{Header: h, ID: m.GetID(), TTL: ttl}, nil
	}
}

// These functions alter what watches send, for EditWatches.

// SwallowDeletes leaves out the deletions of keys with that prefix, and
// answers that have no other event.
func SwallowDeletes(prefix string) func(*pb.WatchResponse) []*pb.WatchResponse {
	return func(r *pb.WatchResponse) []*pb.WatchResponse {
		n := len(r.Events)
		r.Events = slices.DeleteFunc(r.Events, func(e *mvccpb.Event) bool {
			return e.Type == etcdapi.EventDelete && strings.HasPrefix(string(e.Kv.Key), prefix)
		})
		if n > 0 && len(r.Events) == 0 {
			return nil
		}
		return []*pb.WatchResponse{r}
	}
}

// Silence sends nothing at all, not even that a watch was created.
func Silence(*pb.WatchResponse) []*pb.WatchResponse { return nil }

// Twice sends every answer with events twice.
func Twice(r *pb.WatchResponse) []*pb.WatchResponse {
	if len(r.Events) == 0 {
		return []*pb.WatchResponse{r}
	}
	return []*pb.WatchResponse{r, etcdapi.Clone(r)}
}

// Replay repeats, before each answer with events, all earlier ones of that watch_id.
func Replay() func(*pb.WatchResponse) []*pb.WatchResponse {
	var mu sync.Mutex
	sent := map[int64][]*pb.WatchResponse{}
	return func(r *pb.WatchResponse) []*pb.WatchResponse {
		if len(r.Events) == 0 {
			return []*pb.WatchResponse{r}
		}
		mu.Lock()
		defer mu.Unlock()
		out := append(slices.Clone(sent[r.WatchId]), r)
		sent[r.WatchId] = append(sent[r.WatchId], etcdapi.Clone(r))
		return out
	}
}
