package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
)

// ErrNoWorker: no worker of the name has this lease.
var ErrNoWorker = errors.New("the name has no such worker")

// A SharedOut is a name whose shards are shared out among workers.
type SharedOut struct {
	Name    string
	Shards  int // as its workers say; 0: it has no worker
	Workers int
	Owned   int      // how many shards somebody has
	Foreign []string // the keys in the shards' queues that are no worker's
}

// SharedOuts returns the names that begin with prefix and whose shards somebody works on, or
// would.
func SharedOuts(ctx context.Context, c *pawl.Client, prefix string) (all []SharedOut, err error) {
	r, _, err := newReader(ctx, c, Scope{})
	if err != nil {
		return nil, fmt.Errorf("inspect: shards: %w", err)
	}
	root := keys.ShardsRoot(r.host.Namespace)
	of := map[string]int{}                         // the index in all, by name
	first := map[string]map[int]*mvccpb.KeyValue{} // of the shards' queues
	var rev int64
	for from := []byte(root); ; {
		resp, err := r.query(ctx, "list shards", get(&pb.RangeRequest{Key: from, RangeEnd: txn.PrefixEnd(root), Limit: pageSize, Revision: rev, KeysOnly: true}))
		if err != nil {
			return nil, fmt.Errorf("inspect: shards: %w", r.explain(err, span{prefix: root}))
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		for _, kv := range kvs {
			k, ok := keys.ParseShards(r.host.Namespace, string(kv.Key))
			if !ok || !strings.HasPrefix(k.Name, prefix) {
				continue
			}
			i, known := of[k.Name]
			if !known {
				i = len(all)
				of[k.Name], first[k.Name] = i, map[int]*mvccpb.KeyValue{}
				all = append(all, SharedOut{Name: k.Name})
			}
			switch key := k.Parse(string(kv.Key)); key.Kind {
			case keys.ShardsMember:
				all[i].Shards, all[i].Workers = key.N, all[i].Workers+1
			case keys.ShardsQueue:
				if key.Lease == 0 {
					all[i].Foreign = append(all[i].Foreign, string(kv.Key))
				}
				if f := first[k.Name][key.Shard]; f == nil || kv.CreateRevision < f.CreateRevision {
					first[k.Name][key.Shard] = kv
				}
			}
		}
		if len(kvs) < pageSize {
			break
		}
		from = append(kvs[len(kvs)-1].Key, 0)
	}
	for i, s := range all {
		for _, kv := range first[s.Name] {
			if k, _ := keys.ParseShards(r.host.Namespace, string(kv.Key)); k.Parse(string(kv.Key)).Lease != 0 {
				all[i].Owned++
			}
		}
	}
	return all, nil
}

// Drain tells the worker with this lease to give up its shards of name to the others and to take
// none, or that it may take its share again. What nobody waits for it keeps. The error matches
// ErrNoWorker where there is no such worker.
func Drain(ctx context.Context, c *pawl.Client, name string, lease int64, on bool) error {
	r, _, err := newReader(ctx, c, Scope{})
	if err != nil {
		return fmt.Errorf("inspect: drain: %w", err)
	}
	k, err := keys.NewShards(r.host.Namespace, name)
	if err != nil {
		return fmt.Errorf("inspect: drain: %w", err)
	}
	for {
		again, err := r.drain(ctx, k, lease, on)
		if err != nil {
			return fmt.Errorf("inspect: drain %x of %q: %w", lease, name, err)
		}
		if !again {
			return nil
		}
	}
}

// drain writes the member key once; again: the worker has written it meanwhile.
func (r *reader) drain(ctx context.Context, k keys.Shards, lease int64, on bool) (again bool, err error) {
	from, to := k.Members()
	resp, err := r.query(ctx, "read the workers of shards", get(&pb.RangeRequest{Key: from, RangeEnd: to}))
	if err != nil {
		return false, err
	}
	for _, kv := range txn.KVs(resp, 0) {
		key := k.Parse(string(kv.Key))
		if key.Lease != lease {
			continue
		}
		m, err := shards.DecodeMember(key.N, kv.Value)
		if err != nil {
			return false, err
		}
		if m.Drained == on {
			return false, nil
		}
		m.Drained = on
		resp, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "drain a worker", Repeat: cluster.Always}, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.ModIs(kv.Key, kv.ModRevision)},
			Success: []*pb.RequestOp{txn.PutKeepingLease(kv.Key, m.Encode())},
			Failure: []*pb.RequestOp{txn.Stat(kv.Key)},
		})
		return err == nil && !resp.Succeeded, err
	}
	return false, ErrNoWorker
}
