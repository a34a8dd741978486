package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// A Lease is how long a lease lasts without a renewal, as etcd's leader reports it.
type Lease struct {
	Left, Granted time.Duration
	Gone          bool
}

// maxQueries is how many leases are queried at a time.
const maxQueries = 16

// Leases queries leases, each once, and skips the ID 0. It is for people: the
// remaining time is exact to a second, and out of date when it arrives. It leaves out a
// lease whose query fails, and returns the first error beside the others' answers.
func Leases(ctx context.Context, c *pawl.Client, ids ...int64) (map[int64]Lease, error) {
	r, err := newReader(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("inspect: leases: %w", err)
	}
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		slots   = make(chan struct{}, maxQueries)
		out     = make(map[int64]Lease, len(ids))
		queried = make(map[int64]bool, len(ids))
	)
	for _, id := range ids {
		if id == 0 || queried[id] {
			continue
		}
		queried[id] = true
		slots <- struct{}{}
		wg.Go(func() { // ends with its request
			defer func() { <-slots }()
			l, lerr := r.lease(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if lerr == nil {
				out[id] = l
			} else if err == nil {
				err = fmt.Errorf("inspect: lease %x: %w", id, lerr)
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
		resp, err = etcdapi.LeaseTimeToLive(ctx, m, &pb.LeaseTimeToLiveRequest{ID: id})
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
