package session

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// maxOps is how many operations a transaction has beside the one on the session key: together
// the 128 that etcd allows by default.
const maxOps = 127

// fewHolders is how many held dependents a round reads at least, however many wait.
const fewHolders = 16

// A keyRead is the part of a linearizable read that covers dependents' keys.
type keyRead struct {
	dependents []keysOf
	behind     []behindOf
	ops        []*pb.RequestOp
}

// behindOf holds the index of one of the reads of a dependent's Behind among a keyRead's
// operations.
type behindOf struct {
	dependent Dependent
	op        int
}

// keysOf holds the indices of one of a dependent's keys, and of its predecessor, among a
// keyRead's operations. An index of -1 means that it is not read.
type keysOf struct {
	dependent        Dependent
	index            int // of the own key
	key              string
	own, predecessor int
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

// split fills reads of at most most keys with the keys of all dependents.
func split(dependents []Dependent, most int) []keyRead {
	all := []keyRead{{}}
	with := func(room int) *keyRead {
		l := &all[len(all)-1]
		if len(l.ops) > 0 && len(l.ops)+room > most {
			all = append(all, keyRead{})
			l = &all[len(all)-1]
		}
		return l
	}
	for _, d := range dependents {
		own, predecessor := d.Keys() // none if they are not known to exist yet
		for index, key := range own {
			l := with(1 + opsFor(predecessor))
			l.dependents = append(l.dependents, keysOf{d, index, key, l.add(key), l.add(predecessor)})
			predecessor = "" // it is read once
		}
		for _, op := range d.Behind() {
			l := with(1)
			l.behind = append(l.behind, behindOf{d, len(l.ops)})
			l.ops = append(l.ops, op)
		}
	}
	return all
}

// opsFor is how many operations reading key takes.
func opsFor(key string) int {
	if key == "" {
		return 0
	}
	return 1
}

func (l *keyRead) add(key string) int {
	if key == "" {
		return -1
	}
	l.ops = append(l.ops, txn.Stat(key))
	return len(l.ops) - 1
}

// deliver gives each dependent what resp showed of its keys; the keyRead's operations begin
// at index skip.
func (l *keyRead) deliver(resp *pb.TxnResponse, skip int) {
	seen := func(i int) Observed {
		if i < 0 {
			return Observed{}
		}
		if kv := txn.KV(resp, skip+i); kv != nil {
			return Observed{kv.CreateRevision, kv.ModRevision}
		}
		return Observed{}
	}
	for _, at := range l.dependents {
		at.dependent.Observe(resp.Header.Revision, at.index, at.key, seen(at.own), seen(at.predecessor))
	}
	for _, at := range l.behind {
		if kv := txn.KV(resp, skip+at.op); kv != nil {
			at.dependent.ObserveBehind(kv.CreateRevision)
		}
	}
}

// readKeys reads the session key and l on m, in one transaction without writes. If that is
// refused because of permission on a lock key, or as too many operations, it reads the session
// key alone. whole reports whether l's keys were in the answer.
func (s *Session) readKeys(ctx context.Context, m *cluster.Member, l *keyRead) (resp *pb.TxnResponse, whole bool, err error) {
	read := cluster.Request{Op: "confirm session", On: m, PerTry: s.renewalBound()}
	ops := append(make([]*pb.RequestOp, 0, 1+len(l.ops)), txn.Stat(s.key))
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

// readRest reads on m what did not fit beside the session key. It decides nothing about the
// session, and a read that fails is made again in a later round.
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

// Examine reads, linearizably, whether the session key is still as this session wrote it, and ends
// the session if not. It returns nil only if the key was shown.
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
