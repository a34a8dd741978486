package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Lease is how long a lease lasts without a renewal, as its leader says.
type Lease struct {
	Left, Granted time.Duration
	Gone          bool
}

// asking is how many leases are asked for at a time.
const asking = 16

// Leases asks for leases, each once, those that are 0 left out. It is for people:
// what is left is right to a second, and old when it arrives. A lease that cannot
// be asked for is left out, and the first error is returned beside the rest.
func Leases(ctx context.Context, c *pawl.Client, ids ...int64) (map[int64]Lease, error) {
	r, _, err := newReader(ctx, c, Scope{})
	if err != nil {
		return nil, fmt.Errorf("survey: leases: %w", err)
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		slots = make(chan struct{}, asking)
		out   = make(map[int64]Lease, len(ids))
		asked = make(map[int64]bool, len(ids))
	)
	for _, id := range ids {
		if id == 0 || asked[id] {
			continue
		}
		asked[id] = true
		slots <- struct{}{}
		wg.Go(func() { // ends with its request
			defer func() { <-slots }()
			l, lerr := r.lease(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if lerr == nil {
				out[id] = l
			} else if err == nil {
				err = fmt.Errorf("survey: lease %x: %w", id, lerr)
			}
		})
	}
	wg.Wait()
	return out, err
}

func (r *reader) lease(ctx context.Context, id int64) (l Lease, err error) {
	var resp *pb.LeaseTimeToLiveResponse
	err = r.host.Cluster.Do(ctx, cluster.Request{Op: "lease time to live", Repeat: cluster.Always, Local: true, Reads: true}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		var err error
		resp, err = m.Lease().LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
		return resp.GetHeader(), err
	})
	if cluster.IsLeaseNotFound(err) {
		return Lease{Gone: true}, nil
	}
	if err != nil {
		return Lease{}, err
	}
	return Lease{time.Duration(resp.TTL) * time.Second, time.Duration(resp.GrantedTTL) * time.Second, resp.TTL < 0}, nil
}
