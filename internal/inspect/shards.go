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

// ErrNoWorker is matched by errors that report that no worker of the name has this lease.
var ErrNoWorker = errors.New("the name has no such worker")

// A SharedOut is a name whose shards are shared out among workers.
type SharedOut struct {
	Name    string
	Shards  int // as its workers say; 0 without a worker
	Workers int
	Owned   int      // how many shards somebody has
	Foreign []string // the keys in the shards' queues that are no worker's
}

// SharedOuts returns the names that begin with prefix and whose shards somebody works on, or would
// work on.
func SharedOuts(ctx context.Context, c *pawl.Client, prefix string) ([]SharedOut, error) {
	return using(ctx, c, "inspect: shards", func(r *reader) ([]SharedOut, error) {
		s := sharedOuts{namespace: r.host.Namespace, prefix: prefix}
		err := reread(func() error {
			s.all, s.of, s.first = nil, map[string]int{}, map[shard]*mvccpb.KeyValue{}
			return r.pages(ctx, "list shards", span{prefix: keys.ShardsRoot(s.namespace)}, new(int64), true, s.add)
		})
		for of, kv := range s.first {
			if k, _ := keys.ParseShards(s.namespace, string(kv.Key)); k.Parse(string(kv.Key)).Lease != 0 {
				s.all[of.name].Owned++
			}
		}
		return s.all, err
	})
}

// sharedOuts are what SharedOuts has read.
type sharedOuts struct {
	namespace, prefix string
	all               []SharedOut
	of                map[string]int             // the index in all, by name
	first             map[shard]*mvccpb.KeyValue // of the shards' queues
}

// shard is the n-th of a name, which has this index in all.
type shard struct{ name, n int }

// add adds a page of keys.
func (s *sharedOuts) add(kvs []*mvccpb.KeyValue) error {
	for _, kv := range kvs {
		k, ok := keys.ParseShards(s.namespace, string(kv.Key))
		if !ok || !strings.HasPrefix(k.Name, s.prefix) {
			continue
		}
		i, known := s.of[k.Name]
		if !known {
			i = len(s.all)
			s.of[k.Name] = i
			s.all = append(s.all, SharedOut{Name: k.Name})
		}
		switch key := k.Parse(string(kv.Key)); key.Kind {
		case keys.ShardsMember:
			s.all[i].Shards, s.all[i].Workers = key.N, s.all[i].Workers+1
		case keys.ShardsQueue:
			if key.Lease == 0 {
				s.all[i].Foreign = append(s.all[i].Foreign, string(kv.Key))
			}
			of := shard{i, key.Shard}
			if f := s.first[of]; f == nil || kv.CreateRevision < f.CreateRevision {
				s.first[of] = kv
			}
		}
	}
	return nil
}

// Drain tells the worker with this lease to give up its shards of name to the others and to take
// none, or, if on is false, that it may take its share again. It keeps shards that nobody waits
// for. The error matches ErrNoWorker if there is no such worker.
func Drain(ctx context.Context, c *pawl.Client, name string, lease int64, on bool) error {
	_, err := using(ctx, c, fmt.Sprintf("inspect: drain %x of %q", lease, name), func(r *reader) (again bool, err error) {
		k, err := keys.NewShards(r.host.Namespace, name)
		for again = true; again && err == nil; {
			again, err = r.drain(ctx, k, lease, on)
		}
		return again, err
	})
	return err
}

// drain writes the member key once. It returns again if the worker has written the key meanwhile.
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
