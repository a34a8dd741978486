package kv

import (
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// errAnswer is an answer that does not fit what was sent. Whether it applied is not known.
var errAnswer = errors.New("the answer does not fit the request")

// result reads the answer to request.
func (t *Txn) result(a *pb.TxnResponse) (Result, error) {
	res := Result{Revision: a.GetHeader().GetRevision()}
	if len(t.Guards) > 0 {
		if !a.Succeeded {
			return Result{}, t.fenced(a)
		}
		if len(t.If) > 0 {
			if len(a.Responses) != 1 || a.Responses[0].GetResponseTxn() == nil {
				return Result{}, fmt.Errorf("%w: %w", ErrUnknown, errAnswer)
			}
			a = a.Responses[0].GetResponseTxn()
		}
	}
	res.OK = a.Succeeded
	ran := t.Then
	if !a.Succeeded {
		ran = t.Else
	}
	if len(a.Responses) < len(ran) { // one more is the read that request adds
		return Result{}, fmt.Errorf("%w: %w", ErrUnknown, errAnswer)
	}
	for i, op := range ran {
		if op.kind == opGet {
			res.Gets = append(res.Gets, entry(op.key, a.Responses[i].GetResponseRange()))
		}
	}
	return res, nil
}

func entry(key string, r *pb.RangeResponse) Entry {
	if len(r.GetKvs()) == 0 {
		return Entry{Key: key}
	}
	kv := r.Kvs[0]
	return Entry{Key: key, Value: kv.Value, ModRevision: kv.ModRevision}
}

// fenced names the guards that failed, and what is there instead.
func (t *Txn) fenced(a *pb.TxnResponse) error {
	var errs []error
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
			errs = append(errs, fmt.Errorf("lock key %q is gone: %w", g.key, ErrFenced))
		default:
			errs = append(errs, fmt.Errorf("lock key %q has create revision %d instead of %d: %w", g.key, now, g.token, ErrFenced))
		}
	}
	if len(errs) == 0 {
		return ErrFenced
	}
	return errors.Join(errs...)
}
