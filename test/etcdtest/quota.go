package etcdtest

import (
	"cmp"
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// filler is the key that FillQuota writes to.
var filler = []byte("\x00etcdtest/filler")

const etcdsQuota = 2 << 30 // if Options set none

// FillQuota writes until the database is full and the NOSPACE alarm is raised. Only reads and
// deletions are then served. The cluster must have been started with a small Options.QuotaBytes,
// because etcd's default is 2 GiB.
func (c *Cluster) FillQuota(t testing.TB) {
	t.Helper()
	if c.opts.QuotaBytes == 0 {
		t.Fatalf("etcdtest: fill the quota: it is 2 GiB; start the cluster with Options.QuotaBytes, of 8 MiB for example")
	}
	c.operate(t, "fill the quota", func(ctx context.Context, m *Member) error {
		for {
			_, err := pb.NewKVClient(m.conn).Put(ctx, &pb.PutRequest{Key: filler, Value: make([]byte, 512<<10)})
			if status.Code(err) == codes.ResourceExhausted {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// FreeQuota undoes FillQuota. It compacts, defragments and disarms the alarms, until no new one is
// raised and no member's database is large. A member that was behind raises its alarm late, and
// keeps its size if it had not yet compacted when it was defragmented.
func (c *Cluster) FreeQuota(t testing.TB) {
	t.Helper()
	c.operate(t, "free the quota", func(ctx context.Context, m *Member) error {
		_, err := pb.NewKVClient(m.conn).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: filler})
		return err
	})
	end := time.Now().Add(startTimeout)
	for calm := 0; calm < 3; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("etcdtest: free the quota: the database stays full, or the alarm comes back, for %v", startTimeout)
		}
		alarms := 0
		c.operate(t, "disarm the alarms", func(ctx context.Context, m *Member) (err error) {
			alarms, err = disarm(ctx, pb.NewMaintenanceClient(m.conn))
			return err
		})
		if calm++; alarms > 0 || calm == 1 || c.isLarge(t) {
			calm = 1
			c.Compact(t)
			c.Defragment(t)
		}
	}
}

// isLarge reports whether the database of a running member takes more than half its quota, or its
// size is not known.
func (c *Cluster) isLarge(t testing.TB) (large bool) {
	t.Helper()
	for _, m := range c.Members() {
		if !m.running() {
			continue
		}
		err := c.try(context.Background(), m, func(ctx context.Context, m *Member) error {
			r, err := pb.NewMaintenanceClient(m.conn).Status(ctx, &pb.StatusRequest{})
			large = large || r.GetDbSize() > cmp.Or(c.opts.QuotaBytes, etcdsQuota)/2
			return err
		})
		large = large || err != nil
	}
	return large
}

// disarm ends all alarms and returns how many there were.
func disarm(ctx context.Context, maintenance pb.MaintenanceClient) (int, error) {
	r, err := maintenance.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	if err != nil {
		return 0, err
	}
	for _, a := range r.Alarms {
		_, err := maintenance.Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: a.Alarm})
		if err != nil {
			return 0, err
		}
	}
	return len(r.Alarms), nil
}
