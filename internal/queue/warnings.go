package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// The keys of a name with a slash differ between etcd's layout and pawl's, and acquisitions in one
// layout do not exclude those in the other. So if errors are logged, a client that enqueues a key
// of such a name for the first time reads the keys of the other layout in the background. It puts
// its key first, so of two clients that begin at the same time at least one sees the other. A
// semaphore has one layout.

// mostInOther is how many keys of the other layout are read. Keys of other names and foreign ones
// may be among them.
const mostInOther = 16

// checkLayouts logs that a name is used in both layouts, once for each name.
func (a *Acquisition) checkLayouts() {
	host := a.s.Host()
	if host.Layouts == nil || !host.Cluster.Logger().Enabled(context.Background(), slog.LevelError) {
		return
	}
	for i, q := range a.queues {
		if q.Semaphore || !strings.Contains(q.Name, "/") || !host.Layouts.First(q.Prefix) {
			continue
		}
		if other, err := keys.NewQueue(host.Namespace, q.Name, !q.EtcdLayout); err == nil {
			own := a.keys[i]
			a.s.Go(fmt.Sprintf("the other layout of %q", q.Name), func(ctx context.Context) {
				a.checkLayout(ctx, q.Prefix, own, other)
			})
		}
	}
}

// checkLayout reads keys of other, the other layout of the queue that own is in. If no answer
// comes, the next acquisition reads them. A refusal is not repeated, because it would be the same
// then.
func (a *Acquisition) checkLayout(ctx context.Context, prefix, own string, other keys.Queue) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c := a.s.Host().Cluster
	resp, err := c.Txn(ctx, cluster.Request{Op: "read other layout", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Between([]byte(other.Prefix), txn.PrefixEnd(other.Prefix), mostInOther)},
	})
	if err != nil { // only the log needs it
		if !cluster.IsFinal(err) {
			a.s.Host().Layouts.Forget(prefix)
		}
		return
	}
	for _, kv := range txn.KVs(resp, 0) {
		if key := string(kv.Key); other.Has(key) {
			c.Logger().Error("a name is used in both layouts, which do not exclude each other",
				"name", other.Name, "key", own, "other_key", key)
			return
		}
	}
}

// A lock and an election of one name share a queue, which is seldom meant. A key's name does
// not say which of the two it is, and its value is not read while waiting. So an acquisition
// that still waits after a round of renewals reads its predecessor's value, once, in the
// background, if warnings are logged.

// checkMixed logs, once, that a lock waits for a candidate, or a candidate for a lock.
func (a *Acquisition) checkMixed() {
	log := a.s.Host().Cluster.Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	p := a.predecessor()
	if p.Name == "" || !a.mixedChecked.CompareAndSwap(false, true) {
		return
	}
	if owner, ok := a.owner(p.Name); !ok || owner == a.s.ID() {
		return
	}
	a.s.Go(fmt.Sprintf("the kind of %q", p.Name), func(ctx context.Context) {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read predecessor", Repeat: cluster.Always},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(p.Name)}})
		if err != nil {
			return // only the log needs it
		}
		if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == p.Create && keys.OfLock(kv.Value) == a.queues[0].Election {
			log.Warn("a lock and an election use one name: this one waits for the other", "name", a.queues[0].Name, "key", a.Key(), "waits_for", p.Name)
		}
	})
}
