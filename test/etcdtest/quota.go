package etcdtest

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// filler is the key that FillQuota writes to.
var filler = []byte("\x00etcdtest/filler")

// FillQuota writes until the database is full and the NOSPACE alarm is raised:
// from then on only reads and deletions are served. The cluster must have been
// started with Options.QuotaBytes, a small one: etcd's own is 2 GiB.
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

// FreeQuota undoes FillQuota: it compacts, defragments and disarms the alarms, until no new one
// is raised. A member that was behind raises its own late.
func (c *Cluster) FreeQuota(t testing.TB) {
	t.Helper()
	c.operate(t, "free the quota", func(ctx context.Context, m *Member) error {
		_, err := pb.NewKVClient(m.conn).DeleteRange(ctx, &pb.DeleteRangeRequest{Key: filler})
		return err
	})
	for calm := 0; calm < 3; time.Sleep(50 * time.Millisecond) {
		alarms := 0
		c.operate(t, "disarm the alarms", func(ctx context.Context, m *Member) (err error) {
			alarms, err = disarm(ctx, pb.NewMaintenanceClient(m.conn))
			return err
		})
		if calm++; alarms > 0 || calm == 1 {
			calm = 1
			c.Compact(t)
			c.Defragment(t)
		}
	}
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
