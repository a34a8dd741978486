package queue

import (
	"context"
	"fmt"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

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
	p := read(a, (*state.Machine).Predecessor)
	if p.Name == "" || !a.mixedChecked.CompareAndSwap(false, true) {
		return
	}
	if owner, ok := a.owner(p.Name); !ok || owner == a.s.ID() {
		return
	}
	a.inBackground(fmt.Sprintf("the kind of %q", p.Name), func(ctx context.Context) {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read predecessor", Repeat: cluster.Always},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(p.Name)}})
		if err != nil {
			return // only the log needs it
		}
		if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == p.Create && keys.OfLock(kv.Value) == a.queue.Election {
			log.Warn("a lock and an election use one name: this one waits for the other", "name", a.queue.Name, "key", a.Key(), "waits_for", p.Name)
		}
	})
}
