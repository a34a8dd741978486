package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Schedule is what is recorded of the runs of a name.
type Schedule struct {
	Name string
	keys.Run
	Key     string
	Foreign string // the value, if it holds no time
}

// aheadMost is how far a record may be ahead of this machine's clock, as package lock has it.
const aheadMost = time.Minute

// Ahead returns how far the record is ahead of now, or 0 if that is no more than clocks differ. Until
// that time nothing runs.
func (s Schedule) Ahead(now time.Time) time.Duration {
	if ahead := s.At.Sub(now); ahead > aheadMost {
		return ahead
	}
	return 0
}

// MaxSchedules is how many records Schedules reads at most.
const MaxSchedules = 1000

// Schedules reads the records of runs, by key, and returns those whose names begin with prefix.
func Schedules(ctx context.Context, c *pawl.Client, prefix string) ([]Schedule, error) {
	return using(ctx, c, "inspect", func(r *reader) (out []Schedule, err error) {
		root := keys.OnceRoot(r.host.Namespace)
		resp, err := r.query(ctx, "read records", get(&pb.RangeRequest{Key: []byte(root), RangeEnd: txn.PrefixEnd(root), Limit: MaxSchedules}))
		for _, kv := range txn.KVs(resp, 0) {
			if s, ok := r.schedule(kv); ok && strings.HasPrefix(s.Name, prefix) {
				out = append(out, s)
			}
		}
		return out, err
	})
}

// schedule returns the record that kv is.
func (r *reader) schedule(kv *mvccpb.KeyValue) (s Schedule, ok bool) {
	s.Key = string(kv.Key)
	if s.Name, ok = keys.ParseOnceKey(r.host.Namespace, s.Key); !ok {
		return s, false
	}
	if s.Run, ok = keys.ParseRun(kv.Value); !ok {
		s.Foreign = string(kv.Value)
	}
	return s, true
}

// ErrRecordChanged means that a record was written in the meantime.
var ErrRecordChanged = errors.New("the record was written in the meantime")

// SetRun writes at as the time of the last run of name, and returns the record that this replaces, or
// the zero Schedule if there was none. A run that is recorded in the meantime is not replaced. The error
// matches ErrRecordChanged, or kv.ErrUnknown if no answer resolved the request's outcome.
func SetRun(ctx context.Context, c *pawl.Client, name string, at time.Time) (before Schedule, err error) {
	return using(ctx, c, fmt.Sprintf("set the last run of %s", keys.Quote(name)), func(r *reader) (before Schedule, err error) {
		key := keys.OnceKey(r.host.Namespace, name)
		resp, err := r.query(ctx, "read a record", get(&pb.RangeRequest{Key: []byte(key)}))
		if err != nil {
			return before, err
		}
		var mod int64 // 0 if there is no record
		if found := txn.KV(resp, 0); found != nil {
			before, _ = r.schedule(found)
			mod = found.ModRevision
		}
		set, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "write a record"}, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.ModIs(key, mod)},
			Success: []*pb.RequestOp{txn.Put(key, keys.Run{At: at}.Value(), 0)},
		})
		if err == nil && !set.Succeeded {
			err = ErrRecordChanged
		}
		return before, err
	})
}
