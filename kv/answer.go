package kv

import (
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// errAnswer is the error of an answer that does not fit what was sent.
var errAnswer = errors.New("the answer does not fit the request")

// result reads the answer to request. If the answer does not fit, it is unknown whether the transaction
// was applied.
func (t *Txn) result(a *pb.TxnResponse) (Result, error) {
	res := Result{Revision: a.GetHeader().GetRevision()}
	if len(t.Guards) > 0 && !a.Succeeded {
		return Result{}, t.fenced(a)
	}
	if len(t.Guards) > 0 && len(t.If) > 0 {
		if len(a.Responses) != 1 || a.Responses[0].GetResponseTxn() == nil {
			return Result{}, fmt.Errorf("%w: %w", ErrUnknown, errAnswer)
		}
		a = a.Responses[0].GetResponseTxn()
	}
	res.OK = a.Succeeded
	ran := t.Then
	if !a.Succeeded {
		ran = t.Else
	}
	// One response more than len(ran) is the read that request added.
	if len(a.Responses) < len(ran) || !res.OK && len(t.If) == 0 || !res.read(ran, a.Responses) {
		return Result{}, fmt.Errorf("%w: %w", ErrUnknown, errAnswer)
	}
	return res, nil
}

// read adds what the operations that ran have read. It returns false if the answers do not fit the
// operations.
func (res *Result) read(ran []Op, answers []*pb.ResponseOp) bool {
	for i, op := range ran {
		r := answers[i].GetResponseRange()
		switch {
		case !op.reads():
		case r == nil:
			return false
		case op.kind == opPrefix:
			res.Gets, res.More = append(res.Gets, entries(r)...), res.More || r.More
		default:
			res.Gets = append(res.Gets, entry(op.key, r))
		}
	}
	return true
}

func entry(key string, r *pb.RangeResponse) Entry {
	if len(r.GetKvs()) == 0 {
		return Entry{Key: key}
	}
	kv := r.Kvs[0]
	return Entry{Key: key, Value: kv.Value, ModRevision: kv.ModRevision}
}

func entries(r *pb.RangeResponse) []Entry {
	out := make([]Entry, 0, len(r.GetKvs()))
	for _, kv := range r.GetKvs() {
		out = append(out, Entry{Key: string(kv.Key), Value: kv.Value, ModRevision: kv.ModRevision})
	}
	return out
}

// fenced returns an error that names the guards that failed, and what was found instead.
func (t *Txn) fenced(a *pb.TxnResponse) error {
	var found []string
	for i, g := range t.Guards {
		if i >= len(a.Responses) {
			break
		}
		var now int64
		if kvs := a.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			now = kvs[0].CreateRevision
		}
		switch now {
		case int64(g.token):
		case 0:
			found = append(found, fmt.Sprintf("lock key %q is gone", g.key))
		default:
			found = append(found, fmt.Sprintf("lock key %q has create revision %d instead of %d", g.key, now, g.token))
		}
	}
	if len(found) == 0 {
		return ErrFenced
	}
	return fmt.Errorf("%s: %w", strings.Join(found, ", "), ErrFenced)
}
