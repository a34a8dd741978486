package session

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// maxOps is how many operations a transaction has beside that on the session key:
// together the 128 that etcd allows by default.
const maxOps = 127

// fewHolders is how many held claims a look asks for at the least, however many
// wait.
const fewHolders = 16

// A look is the part of a linearizable read that asks for claims' keys.
type look struct {
	claims []lookedAt
	ops    []*pb.RequestOp
}

// lookedAt is where a claim's keys stand among a look's operations; -1: not
// asked for.
type lookedAt struct {
	claim       Claim
	own, before int
}

// looks chooses what a round looks at: every claim that waits, and as many of
// the held ones as fit beside them, in rotation (rule N1). Usually it is one
// look; only many waiters need more.
func (s *Session) looks() []look {
	s.mu.Lock()
	most := s.maxOps
	claims := s.roster.round(most)
	s.mu.Unlock()
	return split(claims, most)
}

// split asks each claim for its keys and fills looks of at most most keys.
func split(claims []Claim, most int) []look {
	all := []look{{}}
	for _, c := range claims {
		own, before := c.Keys()
		if own == "" {
			continue // its key is not known to be there yet
		}
		l := &all[len(all)-1]
		if len(l.ops) > 0 && len(l.ops)+asked(own)+asked(before) > most {
			all = append(all, look{})
			l = &all[len(all)-1]
		}
		l.claims = append(l.claims, lookedAt{c, l.ask(own), l.ask(before)})
	}
	return all
}

// asked is how many operations it takes to ask for key.
func asked(key string) int {
	if key == "" {
		return 0
	}
	return 1
}

func (l *look) ask(key string) int {
	if key == "" {
		return -1
	}
	l.ops = append(l.ops, txn.Look(key))
	return len(l.ops) - 1
}

// tell tells the claims what resp, whose operations from skip on are the
// look's, showed of their keys.
func (l *look) tell(resp *pb.TxnResponse, skip int) {
	seen := func(i int) Seen {
		if i < 0 {
			return Seen{}
		}
		if kv := txn.KV(resp, skip+i); kv != nil {
			return Seen{kv.CreateRevision, kv.ModRevision}
		}
		return Seen{}
	}
	for _, at := range l.claims {
		at.claim.Saw(resp.Header.Revision, seen(at.own), seen(at.before))
	}
}

// lookAt reads the session key and l on m, in one transaction without writes.
// Refused for permission on a lock key, or for too many operations, it reads
// the session key alone; told says whether l's keys were in the answer.
func (s *Session) lookAt(ctx context.Context, m *cluster.Member, l *look) (resp *pb.TxnResponse, told bool, err error) {
	read := cluster.Request{Op: "confirm session", On: m, Attempt: s.attemptBound()}
	ops := append(make([]*pb.RequestOp, 0, 1+len(l.ops)), txn.Look(s.key))
	resp, err = s.host.Cluster.Txn(ctx, read, &pb.TxnRequest{Success: append(ops, l.ops...)})
	if err == nil || len(l.ops) == 0 {
		return resp, true, err
	}
	switch {
	case cluster.IsTooManyOps(err):
		s.believe(len(l.ops))
	case !cluster.IsPermissionDenied(err):
		return nil, false, err
	}
	resp, err = s.host.Cluster.Txn(ctx, read, &pb.TxnRequest{Success: ops})
	return resp, false, err
}

// lookOn looks on m at what did not fit beside the session key. It decides
// nothing about the session; a look that fails is made in a later round.
func (s *Session) lookOn(ctx context.Context, m *cluster.Member, looks []look) {
	for i := range looks {
		resp, told, err := s.lookAt(ctx, m, &looks[i])
		if err != nil {
			return
		}
		if told {
			looks[i].tell(resp, 1)
		}
	}
}
