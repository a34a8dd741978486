package queue

import (
	"context"
	"fmt"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A lock and an election of one name are one queue, which is seldom meant. A key's name
// does not say which of the two it is, and its value is not read while waiting: so an
// acquisition that still waits after a round of renewals has its predecessor's value read,
// once, in the background, if somebody reads the log.

// checkKind logs, once, that a lock waits for a candidate, or a candidate for a lock.
func (a *Acquisition) checkKind() {
	log := a.s.Host().Cluster.Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	a.mu.Lock()
	p, _ := a.state.Predecessor()
	first := p.Name != "" && !a.kindChecked
	a.kindChecked = a.kindChecked || first
	a.mu.Unlock()
	if owner, ok := a.owner(p.Name); !first || !ok || owner == a.s.ID() {
		return
	}
	a.ask(fmt.Sprintf("the kind of %q", p.Name), func(ctx context.Context) {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read predecessor", Repeat: cluster.Always},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(p.Name)}})
		if err != nil {
			return // it is for the log alone
		}
		if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == p.Create && keys.OfLock(kv.Value) == a.queue.Election {
			log.Warn("a lock and an election of one name wait for each other", "name", a.queue.Name, "key", a.key, "waits_for", p.Name)
		}
	})
}
