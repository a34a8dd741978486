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

// The keys of a name with a slash differ between etcd's layout and pawl's own, and acquisitions
// in one layout do not exclude those in the other. So if errors are logged, a client that
// enqueues a key of such a name for the first time reads the keys of the other layout in the
// background. It has put its key before, so that of two clients that begin at the same time at
// least one sees the other. A semaphore has one layout.

// mostInOther is how many keys of the other layout are read. Other names' keys and foreign ones
// may be among them.
const mostInOther = 16

// checkLayouts logs once for each name that it is used in both layouts.
func (a *Acquisition) checkLayouts() {
	host := a.s.Host()
	if host.Layouts == nil || !host.Cluster.Logger().Enabled(context.Background(), slog.LevelError) {
		return
	}
	for i, q := range a.queues() {
		if q.Semaphore || !strings.Contains(q.Name, "/") || !host.Layouts.First(q.Prefix) {
			continue
		}
		if other, err := keys.NewQueue(host.Namespace, q.Name, !q.EtcdLayout); err == nil {
			own := a.keys[i]
			a.inBackground(fmt.Sprintf("the other layout of %q", q.Name), func(ctx context.Context) {
				a.checkLayout(ctx, q.Prefix, own, other)
			})
		}
	}
}

// checkLayout reads keys of other, the other layout of the queue that own is in. Where no answer comes, the
// next acquisition reads them; a refusal would be the same then.
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
