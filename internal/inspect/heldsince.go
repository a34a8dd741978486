package inspect

import (
	"cmp"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// maxBefore is how many keys before a shared one are read.
const maxBefore = 16

// heldSince sets HeldSince of the entries that hold, as far as etcd shows it: of a slot, and of a key
// that acquired when it was put, because no key that excludes it was there then. etcd has no time of a
// later acquisition, and does not know any more what was there before its compaction.
func (r *reader) heldSince(ctx context.Context, s *state) error {
	var unsure []*entry
	for _, e := range s.keys {
		switch {
		case !e.holds || e.Election || e.Since.IsZero() || e.Form == Foreign || len(e.Names) > 1:
		case e.HasSlot():
			e.HeldSince = e.Since
		case e.Modified == int64(e.Token): // or a handoff was put on it, which it had waited for
			unsure = append(unsure, e)
		}
	}
	slices.SortFunc(unsure, func(a, b *entry) int { return cmp.Compare(b.Token, a.Token) })
	for batch := range slices.Chunk(unsure, batchSize) {
		if err := r.heldAtOnce(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// heldAtOnce sets HeldSince of those entries that acquired when they were put. It halves the batch where
// the past of one of them is compacted.
func (r *reader) heldAtOnce(ctx context.Context, batch []*entry) error {
	ops := make([]*pb.RequestOp, len(batch))
	for i, e := range batch {
		limit := int64(1)
		if e.Mode == ModeShared {
			limit = maxBefore
		}
		ops[i] = get(&pb.RangeRequest{
			Key: []byte(e.home), RangeEnd: txn.PrefixEnd(e.home), Revision: int64(e.Token), MaxCreateRevision: int64(e.Token) - 1,
			Limit: limit, KeysOnly: true,
		})
	}
	resp, err := r.query(ctx, "read queues of before", ops...)
	switch {
	case cluster.IsCompacted(err) && len(batch) == 1:
		return nil
	case cluster.IsCompacted(err):
		return cmp.Or(r.heldAtOnce(ctx, batch[:len(batch)/2]), r.heldAtOnce(ctx, batch[len(batch)/2:]))
	case err != nil:
		return err
	}
	for i, e := range batch {
		before := txn.KVs(resp, i)
		waited := len(before) > 0 && (e.Mode != ModeShared || len(before) == maxBefore)
		for _, kv := range before {
			k, ok := keys.ParseQueueKey(string(kv.Key))
			home, _ := keys.Split(string(kv.Key))
			waited = waited || !ok || k.Form != keys.Shared || home != e.home
		}
		if !waited {
			e.HeldSince = e.Since
		}
	}
	return nil
}
