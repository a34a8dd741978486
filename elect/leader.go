package elect

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Leader describes the leader at one revision of the cluster.
type Leader struct {
	Name  string        // the election's name, as it was given
	Key   string        // whole, namespace included; "" if nobody leads
	Token fencing.Token // the create revision of Key; 0 if nobody leads
	Value []byte        // as it was last proclaimed
	Lease int64         // the ID of the leader's session, on whose lease Key is; 0 if Key is on none and stays until somebody deletes it

	CreateRevision int64 // of Key: the revision at which the leader became a candidate, and Token
	ModRevision    int64 // of Key: the revision at which Value was written
	// Revision is a revision at which this was so. It is neither where the term began nor where it
	// ended.
	Revision int64
}

// LeaderOf reads from the cluster, linearizably, who leads: the answer was true at some moment
// during the call. The error matches ErrNoLeader if nobody led. It needs no session, and writes
// nothing. It costs two reads; the first, without values, costs the server time in proportion to
// the number of candidates. The owner of the first key under the name counts as the leader, even if
// the key is not pawl's, as it does for candidates.
func LeaderOf(ctx context.Context, c *pawl.Client, name string, opts Options) (Leader, error) {
	r, err := newReader(ctx, c, name, opts)
	if err != nil {
		return Leader{}, failed("leader of", name, ctx, err)
	}
	for { // repeated only if a leader's key was deleted between the two reads
		first, _, err := r.first(ctx)
		if err != nil {
			return Leader{}, failed("leader of", name, ctx, err)
		}
		if first.create == 0 {
			return Leader{}, failed("leader of", name, ctx, ErrNoLeader)
		}
		p, rev, err := r.value(ctx, first)
		if err != nil {
			return Leader{}, failed("leader of", name, ctx, err)
		}
		if p.create != 0 {
			return r.leader(p, rev), nil
		}
	}
}

// A reader reads the candidates of one name. It needs no session.
type reader struct {
	host  session.Host
	queue keys.Queue
}

func newReader(ctx context.Context, c *pawl.Client, name string, opts Options) (*reader, error) {
	if ctx == nil {
		return nil, errors.New("nil context")
	}
	host, err := hooks.HostOf(c)
	if err != nil {
		return nil, err
	}
	q, err := keys.NewQueue(host.Namespace, name, opts.EtcdLayout)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &reader{host: host, queue: q}, nil
}

// leader returns p as a Leader. If p is zero, nobody leads.
func (r *reader) leader(p proclaimed, rev int64) Leader {
	return Leader{
		Name: r.queue.Name, Key: p.key, Token: fencing.Token(p.create), Value: p.value, Lease: p.lease,
		CreateRevision: p.create, ModRevision: p.mod, Revision: rev,
	}
}

// query makes one linearizable read.
func (r *reader) query(ctx context.Context, op string, what *pb.RequestOp) (*pb.TxnResponse, error) {
	return r.host.Cluster.Txn(ctx, cluster.Request{Op: op, Repeat: cluster.Always}, &pb.TxnRequest{Success: []*pb.RequestOp{what}})
}

// first returns the first-created key at revision rev, or the zero candidate if there is none.
func (r *reader) first(ctx context.Context) (c candidate, rev int64, err error) {
	resp, err := r.query(ctx, "read first candidate", txn.FirstUnder(r.queue.Prefix, 1))
	if err != nil {
		return candidate{}, 0, err
	}
	if kv := txn.KV(resp, 0); kv != nil {
		c = candidate{string(kv.Key), kv.CreateRevision}
	}
	return c, resp.Header.Revision, nil
}

// value returns c's value at revision rev, or the zero proclaimed if c no longer exists.
func (r *reader) value(ctx context.Context, c candidate) (p proclaimed, rev int64, err error) {
	resp, err := r.query(ctx, "read leader", txn.Get(c.key))
	if err != nil {
		return proclaimed{}, 0, err
	}
	if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == c.create {
		p = proclaimed{c, kv.ModRevision, kv.Lease, kv.Value}
	}
	return p, resp.Header.Revision, nil
}

// page is how many candidates one request reads. With the longest keys that is a few megabytes.
const page = 1000

// state reads all candidates, without their values, as they are at one revision.
func (r *reader) state(ctx context.Context) (*electionState, error) {
	var all []candidate
	var rev int64 // 0 means the current revision
	from, end := []byte(r.queue.Prefix), txn.PrefixEnd(r.queue.Prefix)
	for {
		resp, err := r.query(ctx, "read candidates", &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
			Key: from, RangeEnd: end, Limit: page, Revision: rev, KeysOnly: true,
		}}})
		if err != nil {
			return nil, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		for _, kv := range kvs {
			all = append(all, candidate{string(kv.Key), kv.CreateRevision})
		}
		if len(kvs) < page {
			return newElectionState(rev, all), nil
		}
		from = []byte(all[len(all)-1].key + "\x00")
	}
}
