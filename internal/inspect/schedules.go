package inspect

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Schedule is what is recorded of the runs of a name.
type Schedule struct {
	Name string
	keys.Run
}

// MaxSchedules is how many records Schedules reads at most.
const MaxSchedules = 1000

// Schedules reads the records of runs, by key, and returns those whose names begin with prefix. A
// record that holds no time is left out.
func Schedules(ctx context.Context, c *pawl.Client, prefix string) ([]Schedule, error) {
	return using(ctx, c, "inspect", func(r *reader) (out []Schedule, err error) {
		root := keys.OnceRoot(r.host.Namespace)
		resp, err := r.query(ctx, "read records", get(&pb.RangeRequest{Key: []byte(root), RangeEnd: txn.PrefixEnd(root), Limit: MaxSchedules}))
		for _, kv := range txn.KVs(resp, 0) {
			name, ok := keys.ParseOnceKey(r.host.Namespace, string(kv.Key))
			if run, holds := keys.ParseRun(kv.Value); ok && holds && strings.HasPrefix(name, prefix) {
				out = append(out, Schedule{name, run})
			}
		}
		return out, err
	})
}
