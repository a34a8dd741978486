package shard

import (
	"bytes"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// The number of keys that one request reads. Queue keys are read without values, and all others with
// theirs, which have up to 13 KB.
const (
	queueKeysAtOnce = 10_000
	othersAtOnce    = 100
)

// read reads everything that is stored of a name, at one revision. n is how many shards it has. If n is
// 0, their number is what the members say, or else that of the queues.
func read(ctx context.Context, c *cluster.Cluster, k keys.Shards, n int) (*shards.View, error) {
	r := reader{c: c}
	from, to := k.Queues()
	queues, err := r.list(ctx, from, to, queueKeysAtOnce, true)
	if err != nil {
		return nil, err
	}
	others, err := r.list(ctx, to, txn.PrefixEnd(k.Prefix), othersAtOnce, false)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		n = count(k, slices.Concat(queues, others))
	}
	return r.view(k, n, slices.Concat(queues, others)), nil
}

// readOwners reads at one revision who has the n shards of a name, and the members, but no wishes.
func readOwners(ctx context.Context, c *cluster.Cluster, k keys.Shards, n int) (*shards.View, error) {
	r := reader{c: c}
	from, to := k.Queues()
	queues, err := r.list(ctx, from, to, queueKeysAtOnce, true)
	if err != nil {
		return nil, err
	}
	from, to = k.Members()
	members, err := r.list(ctx, from, to, othersAtOnce, false)
	if err != nil {
		return nil, err
	}
	return r.view(k, n, slices.Concat(queues, members)), nil
}

// view is what was read.
func (r *reader) view(k keys.Shards, n int, all []*mvccpb.KeyValue) *shards.View {
	view := shards.NewView(k, n)
	for _, kv := range all {
		view.Apply(shards.Event{Key: string(kv.Key), Value: kv.Value, Create: kv.CreateRevision, Mod: kv.ModRevision})
	}
	view.Rev = r.rev
	return view
}

// count is how many shards there are according to the keys of a name.
func count(k keys.Shards, all []*mvccpb.KeyValue) (n int) {
	for _, kv := range all {
		switch key := k.Parse(string(kv.Key)); key.Kind {
		case keys.ShardsMember:
			return key.N
		case keys.ShardsQueue:
			n = max(n, key.Shard+1)
		}
	}
	return n
}

// A reader reads at one revision, that of its first answer.
type reader struct {
	c   *cluster.Cluster
	rev int64
}

func (r *reader) list(ctx context.Context, from, to []byte, atOnce int64, keysOnly bool) (all []*mvccpb.KeyValue, err error) {
	for {
		op := txn.Between(from, to, atOnce)
		op.GetRequestRange().KeysOnly, op.GetRequestRange().Revision = keysOnly, r.rev
		resp, err := r.c.Txn(ctx, cluster.Request{Op: "read the shards of a name"}, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
		if err != nil {
			return nil, err
		}
		if r.rev == 0 {
			r.rev = resp.Header.Revision
		}
		part := txn.KVs(resp, 0)
		all = append(all, part...)
		if len(part) < int(atOnce) {
			return all, nil
		}
		from = append(bytes.Clone(part[len(part)-1].Key), 0)
	}
}

// unread are keys that were read without values, with their modification revisions, for View.Odd.
func unread(all []*mvccpb.KeyValue) (events []shards.Event) {
	for _, kv := range all {
		events = append(events, shards.Event{Key: string(kv.Key), Mod: kv.ModRevision})
	}
	return events
}

// event converts an event of a watch to one for a View.
func event(e watcher.Event) shards.Event {
	return shards.Event{Key: e.Key, Value: e.Value, Deleted: e.Deleted, Create: e.CreateRevision, Mod: e.ModRevision}
}
