package inspect

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

const (
	page  = 1000 // keys read at a time, without values
	batch = 32   // values read at a time: an election's may have 1.5 MB
)

// A Survey is the lines of a scope at one revision.
type Survey struct {
	Revision int64
	Lines    []Line // by name
	Ignored  int    // keys of nobody's form that were too many to be kept
}

// Read reads the scope's lines, linearizably.
func Read(ctx context.Context, c *pawl.Client, scope Scope) (*Survey, error) {
	r, _, err := newReader(ctx, c, scope)
	if err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	out, err := r.survey(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	return out, nil
}

func (r *reader) survey(ctx context.Context, scope Scope) (*Survey, error) {
	spans, err := scope.spans(r.host.Namespace)
	if err != nil {
		return nil, err
	}
	states, err := r.read(ctx, spans)
	if err != nil {
		return nil, err
	}
	out := &Survey{}
	for i, sp := range spans {
		out.take(states[i], scope, sp)
	}
	return out, nil
}

// take adds the lines of one span.
func (v *Survey) take(s *state, scope Scope, sp span) {
	v.Revision = max(v.Revision, s.rev)
	v.Ignored += s.ignored
	if sp.asked == "" {
		v.Lines = merge(v.Lines, s.lines(scope.Prefix, ""))
		return
	}
	for _, l := range s.lines("", sp.asked) {
		if l.Prefix == sp.asked {
			v.Lines = append(v.Lines, l)
		}
	}
}

// A reader asks the cluster.
type reader struct{ host session.Host }

func newReader(ctx context.Context, c *pawl.Client, scope Scope) (*reader, []span, error) {
	if ctx == nil {
		return nil, nil, errors.New("nil context")
	}
	host, err := inside.HostOf(c)
	if err != nil {
		return nil, nil, err
	}
	spans, err := scope.spans(host.Namespace)
	return &reader{host}, spans, err
}

// rereads is how often a reading begins anew because what it reads is compacted.
const rereads = 5

// read is the spans as they are at one revision.
func (r *reader) read(ctx context.Context, spans []span) (states []*state, err error) {
	for range rereads {
		if states, err = r.readOnce(ctx, spans); !cluster.IsCompacted(err) {
			break
		}
	}
	return states, err
}

func (r *reader) readOnce(ctx context.Context, spans []span) (states []*state, err error) {
	var rev int64 // 0: the present
	for _, sp := range spans {
		s := newState(r.host.Namespace)
		s.rev = rev
		if err := r.readInto(ctx, s, sp); err != nil {
			return nil, r.explain(err, sp)
		}
		rev = s.rev
		states = append(states, s)
	}
	return states, nil
}

// readInto reads page by page, and settles who holds.
func (r *reader) readInto(ctx context.Context, s *state, sp span) error {
	from, end := sp.keys()
	for {
		resp, err := r.ask(ctx, "read keys", get(&pb.RangeRequest{Key: from, RangeEnd: end, Limit: page, Revision: s.rev, KeysOnly: true}))
		if err != nil {
			return err
		}
		if s.rev == 0 {
			s.rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		if err := r.keep(ctx, s, kvs); err != nil {
			return err
		}
		if len(kvs) < page {
			s.settle()
			return nil
		}
		from = append(kvs[len(kvs)-1].Key, 0)
	}
}

// keep takes keys in; those that may be a lock's or a candidate's with their
// values.
func (r *reader) keep(ctx context.Context, s *state, kvs []*mvccpb.KeyValue) error {
	var formed []string
	for _, kv := range kvs {
		key := string(kv.Key)
		switch f, _ := formOf(key); {
		case s.hides(key):
		case f == Foreign:
			s.add(Place{Key: key, Token: tokenOf(kv), Modified: kv.ModRevision})
		default:
			formed = append(formed, key)
		}
	}
	for len(formed) > 0 {
		n := min(batch, len(formed))
		if err := r.keepFormed(ctx, s, formed[:n]); err != nil {
			return err
		}
		formed = formed[n:]
	}
	return nil
}

func (r *reader) keepFormed(ctx context.Context, s *state, keys []string) error {
	ops := make([]*pb.RequestOp, len(keys))
	for i, key := range keys {
		ops[i] = get(&pb.RangeRequest{Key: []byte(key), Revision: s.rev})
	}
	resp, err := r.ask(ctx, "read places", ops...)
	if err != nil {
		return err
	}
	var places []Place
	var who []question
	for i := range keys {
		kv := txn.KV(resp, i)
		if kv == nil {
			return fmt.Errorf("key %q is listed at revision %d, and not there", keys[i], s.rev)
		}
		p := newPlace(keys[i], kv.Value, kv.CreateRevision, kv.ModRevision, kv.Lease)
		if id, n := attemptOf(p.Key); p.Election && id != 0 {
			who = append(who, question{lease: id, n: n, rev: s.rev})
		}
		places = append(places, p)
	}
	answers, err := r.answer(ctx, who)
	if err != nil {
		return err
	}
	for _, p := range places {
		id, n := attemptOf(p.Key)
		if a := answers[question{lease: id, n: n, rev: s.rev}]; p.Election && a.there {
			p.sign(a.value)
		}
		s.add(p)
	}
	return nil
}

// ask makes one linearizable read.
func (r *reader) ask(ctx context.Context, op string, what ...*pb.RequestOp) (*pb.TxnResponse, error) {
	return r.host.Cluster.Txn(ctx, cluster.Request{Op: op, Repeat: cluster.Always}, &pb.TxnRequest{Success: what})
}

func get(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// explain says what a role needs where permission was denied.
func (r *reader) explain(err error, sp span) error {
	if !cluster.IsPermissionDenied(err) {
		return err
	}
	return fmt.Errorf("%w (the role needs read on all keys from %q, and from %q)", err, sp.prefix, keys.SessionRoot(r.host.Namespace))
}
