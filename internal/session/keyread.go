package session

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// maxOps is how many operations a transaction has besides the one on the session key. With it they are
// the 128 that etcd allows by default.
const maxOps = 127

// fewHolders is how many held dependents a round reads at least, however many wait.
const fewHolders = 16

// A keyRead is the part of a linearizable read that dependents want.
type keyRead struct {
	ops   []*pb.RequestOp
	parts []Read // ops are the operations of these
}

// keyReads chooses what a round reads: the keys of every waiting dependent, and of as many
// held ones as fit, in rotation (rule N1). Usually that is one read; only many waiters need
// more.
func (s *Session) keyReads() []keyRead {
	s.mu.Lock()
	most := s.maxOps
	dependents := s.roster.round(most)
	s.mu.Unlock()
	return split(dependents, most)
}

// split fills reads of at most most operations with what all dependents want to read.
func split(dependents []Dependent, most int) []keyRead {
	all := []keyRead{{}}
	for _, d := range dependents {
		for _, part := range d.Reads() {
			last := &all[len(all)-1]
			if len(last.ops) > 0 && len(last.ops)+len(part.Ops) > most {
				all = append(all, keyRead{})
				last = &all[len(all)-1]
			}
			last.ops, last.parts = append(last.ops, part.Ops...), append(last.parts, part)
		}
	}
	return all
}

// deliver gives each dependent what resp showed; the keyRead's operations begin at index skip.
func (l *keyRead) deliver(resp *pb.TxnResponse, skip int) {
	for _, part := range l.parts {
		shown := make([]*mvccpb.KeyValue, len(part.Ops))
		for i := range shown {
			shown[i] = txn.KV(resp, skip+i)
		}
		skip += len(shown)
		part.Seen(resp.Header.Revision, shown)
	}
}

// readKeys reads the session key and l on m, in one transaction without writes. If that is refused for
// lack of permission on a lock key, or for too many operations, it reads the session key alone. whole
// reports whether l's keys were in the answer. ctx bounds it.
func (s *Session) readKeys(ctx context.Context, m *cluster.Member, l *keyRead) (resp *pb.TxnResponse, whole bool, err error) {
	read := cluster.Request{Op: "confirm session", On: m, PerTry: lateGrant}
	ops := append(make([]*pb.RequestOp, 0, 1+len(l.ops)), txn.Stat(s.own.key))
	resp, err = s.host.Cluster.Txn(ctx, read, &pb.TxnRequest{Success: append(ops, l.ops...)})
	if err == nil || len(l.ops) == 0 {
		return resp, true, err
	}
	switch {
	case cluster.IsTooManyOps(err):
		s.limitOps(len(l.ops))
	case !cluster.IsPermissionDenied(err):
		return nil, false, err
	}
	resp, err = s.host.Cluster.Txn(ctx, read, &pb.TxnRequest{Success: ops})
	return resp, false, err
}

// readRest reads on m what did not fit beside the session key. It decides nothing about the session. A
// read that fails is repeated in a later round.
func (s *Session) readRest(ctx context.Context, m *cluster.Member, reads []keyRead) {
	for i := range reads {
		resp, whole, err := s.readKeys(ctx, m, &reads[i])
		if err != nil {
			return
		}
		if whole {
			reads[i].deliver(resp, 1)
		}
	}
}

// Examine reads the session key, linearizably, and ends the session if the key is no longer as this
// session wrote it. It returns nil only if the read showed the key as written.
func (s *Session) Examine(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "read session key", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{s.ReadKey()},
	})
	if err != nil {
		return err
	}
	return s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision)
}
