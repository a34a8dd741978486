package queue

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/batch"
)

// write sends one of the queue's writes, alone or together with others (package batch). In
// etcd's layout, where names nest, it is sent alone (rule G1).
func (a *Acquisition) write(ctx context.Context, w batch.Write) (*pb.TxnResponse, error) {
	w.Queue = a.queues[0].Prefix
	for _, q := range a.queues[1:] {
		w.More = append(w.More, q.Prefix)
	}
	if a.queues[0].EtcdLayout {
		w.Kind = batch.Alone
	}
	return a.s.Write(ctx, w)
}
