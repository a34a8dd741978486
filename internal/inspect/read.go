package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

const (
	pageSize  = 1000 // keys read at a time, without values
	batchSize = 32   // values read at a time: an election's may have 1.5 MB
)

// A Snapshot is the queues of a scope at one revision.
type Snapshot struct {
	Revision int64
	Queues   []NamedQueue // by name
	Ignored  int          // foreign keys beyond the bound, which are not kept
}

// Read reads the scope's queues, linearizably.
func Read(ctx context.Context, c *pawl.Client, scope Scope) (*Snapshot, error) {
	return using(ctx, c, "inspect", func(r *reader) (*Snapshot, error) { return r.snapshot(ctx, scope) })
}

func (r *reader) snapshot(ctx context.Context, scope Scope) (*Snapshot, error) {
	spans, err := scope.spans(r.host.Namespace)
	if err != nil {
		return nil, err
	}
	states, err := r.read(ctx, spans, scope.First)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if scope.Held {
			if err := r.heldSince(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	out := &Snapshot{}
	for i, sp := range spans {
		out.add(states[i], scope, sp)
	}
	return out, nil
}

// add adds the queues of one span.
func (s *Snapshot) add(st *state, scope Scope, sp span) {
	s.Revision = max(s.Revision, st.rev)
	s.Ignored += st.ignored
	if sp.only == "" {
		s.Queues = append(s.Queues, st.queues(scope.Prefix, "")...)
		slices.SortStableFunc(s.Queues, byName)
		return
	}
	for _, q := range st.queues("", sp.only) {
		if q.Prefix == sp.only {
			s.Queues = append(s.Queues, q)
		}
	}
}

// A reader reads from the cluster.
type reader struct{ host session.Host }

func newReader(ctx context.Context, c *pawl.Client) (*reader, error) {
	if ctx == nil {
		return nil, errors.New("nil context")
	}
	host, err := hooks.HostOf(c)
	return &reader{host}, err
}

// using returns what do returns for a reader of c, and an error that begins with what.
func using[T any](ctx context.Context, c *pawl.Client, what string, do func(*reader) (T, error)) (found T, err error) {
	r, err := newReader(ctx, c)
	if err == nil {
		found, err = do(r)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// rereads is how often a read starts again because its revision is compacted.
const rereads = 5

// read reads the spans at one revision, and the first keys of each queue whole; 0 means all.
func (r *reader) read(ctx context.Context, spans []span, first int) (states []*state, err error) {
	err = reread(func() error {
		states, err = r.readOnce(ctx, spans, first)
		return err
	})
	return states, err
}

// reread calls read again when the revision that it began to read at is compacted.
func reread(read func() error) (err error) {
	for range rereads {
		if err = read(); !cluster.IsCompacted(err) {
			break
		}
	}
	return err
}

func (r *reader) readOnce(ctx context.Context, spans []span, first int) (states []*state, err error) {
	var rev int64 // 0 means the present
	for _, sp := range spans {
		s := newState(r.host.Namespace)
		err := r.pages(ctx, "read keys", sp, &rev, true, func(kvs []*mvccpb.KeyValue) error {
			s.rev = rev
			if first > 0 {
				s.addUnread(kvs)
				return nil
			}
			return r.keep(ctx, s, kvs)
		})
		if err == nil && first > 0 {
			err = r.readFirst(ctx, s, first)
		}
		if err != nil {
			return nil, err
		}
		s.settle()
		states = append(states, s)
	}
	return states, nil
}

// pages reads the keys of sp page by page, all at the revision rev. If that is 0, it reads at the
// present and sets rev to it.
func (r *reader) pages(ctx context.Context, op string, sp span, rev *int64, keysOnly bool, page func([]*mvccpb.KeyValue) error) error {
	from, end := sp.keys()
	for {
		resp, err := r.query(ctx, op, get(&pb.RangeRequest{Key: from, RangeEnd: end, Limit: pageSize, Revision: *rev, KeysOnly: keysOnly}))
		if err != nil {
			return r.explain(err, sp)
		}
		if *rev == 0 {
			*rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		if err := page(kvs); err != nil {
			return r.explain(err, sp)
		}
		if len(kvs) < pageSize {
			return nil
		}
		from = append(kvs[len(kvs)-1].Key, 0)
	}
}

// keep adds keys. It reads the values of those that may be a lock's or a candidate's.
func (r *reader) keep(ctx context.Context, s *state, kvs []*mvccpb.KeyValue) error {
	var formed []string
	for _, kv := range kvs {
		key := string(kv.Key)
		switch f, _ := formOf(key); {
		case s.hides(key):
		case f == Foreign:
			s.add(foreign(key, kv.CreateRevision, kv.ModRevision))
		default:
			formed = append(formed, key)
		}
	}
	for batch := range slices.Chunk(formed, batchSize) {
		if err := r.keepFormed(ctx, s, batch); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) keepFormed(ctx context.Context, s *state, keys []string) error {
	ops := make([]*pb.RequestOp, len(keys))
	for i, key := range keys {
		ops[i] = get(&pb.RangeRequest{Key: []byte(key), Revision: s.rev})
	}
	resp, err := r.query(ctx, "read queue keys", ops...)
	if err != nil {
		return err
	}
	var positions []Position
	var queries []query
	for i := range keys {
		kv := txn.KV(resp, i)
		if kv == nil {
			return fmt.Errorf("key %q is listed at revision %d, and not there", keys[i], s.rev)
		}
		p := newPosition(keys[i], kv.Value, kv.CreateRevision, kv.ModRevision, kv.Lease)
		if q := p.query(s.rev); q.lease != 0 && !p.isNamed() {
			queries = append(queries, q)
		}
		positions = append(positions, p)
	}
	answers, err := r.answer(ctx, queries)
	if err != nil {
		return err
	}
	for _, p := range positions {
		p.belongs(answers[p.query(s.rev)])
		if e := s.keys[p.Key]; e != nil { // added unread
			e.Position = p
			continue
		}
		s.add(p)
	}
	return nil
}

// query makes one linearizable read.
func (r *reader) query(ctx context.Context, op string, what ...*pb.RequestOp) (*pb.TxnResponse, error) {
	return r.host.Cluster.Txn(ctx, cluster.Request{Op: op, Repeat: cluster.Always}, &pb.TxnRequest{Success: what})
}

func get(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// explain adds what the role needs if permission was denied.
func (r *reader) explain(err error, sp span) error {
	if !cluster.IsPermissionDenied(err) {
		return err
	}
	return fmt.Errorf("%w (the role needs read on all keys from %q, and from %q)", err, sp.prefix, keys.SessionRoot(r.host.Namespace))
}
