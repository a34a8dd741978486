package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"google.golang.org/grpc"
)

// quickly makes this package's connections come back at once after a member's restart.
var quickly = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

// operate makes the current leader carry out f.
func (c *Cluster) operate(t testing.TB, what string, f func(ctx context.Context, m *Member) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		m := c.leader(ctx)
		if m == nil {
			last = errors.New("nobody leads")
		} else if last = c.try(ctx, m, f); last == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatalf("etcdtest: %s: %v", what, last)
}

// try makes m carry out f once.
func (c *Cluster) try(ctx context.Context, m *Member, f func(ctx context.Context, m *Member) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ctx, err := c.authenticated(ctx, m)
	if err != nil {
		return err
	}
	return f(ctx, m)
}

// MoveLeader makes that member lead, by etcd's transfer. Leases get their full TTL again.
func (c *Cluster) MoveLeader(t testing.TB, to *Member) {
	t.Helper()
	c.operate(t, "move the leader", func(ctx context.Context, m *Member) error {
		if m == to {
			return nil // already, or the answer of an earlier try was lost
		}
		_, err := pb.NewMaintenanceClient(m.conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to.ID()})
		return err
	})
}

// Revision is the cluster's revision, read linearizably.
func (c *Cluster) Revision(t testing.TB) int64 {
	t.Helper()
	var rev int64
	c.operate(t, "read the revision", func(ctx context.Context, m *Member) error {
		r, err := pb.NewKVClient(m.conn).Range(ctx, &pb.RangeRequest{Key: []byte("\x00etcdtest")})
		rev = r.GetHeader().GetRevision()
		return err
	})
	return rev
}

// Compact forgets everything before the present revision.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	rev := c.Revision(t)
	c.operate(t, "compact", func(ctx context.Context, m *Member) error {
		_, err := pb.NewKVClient(m.conn).Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
		if status.Code(err) == codes.OutOfRange {
			return nil // it was done before, and its answer lost
		}
		return err
	})
}

// Defragment defragments the database of every member that runs, one after the other. A member
// serves nothing meanwhile.
func (c *Cluster) Defragment(t testing.TB) {
	t.Helper()
	for _, m := range c.Members() {
		if m.running() {
			m.Defragment(t)
		}
	}
}

// Defragment defragments the member's database.
func (m *Member) Defragment(t testing.TB) {
	t.Helper()
	err := m.cluster.try(context.Background(), m, func(ctx context.Context, m *Member) error {
		_, err := pb.NewMaintenanceClient(m.conn).Defragment(ctx, &pb.DefragmentRequest{})
		return err
	})
	if err != nil {
		t.Fatalf("etcdtest: defragment %s: %v", m.name, err)
	}
}

// RotateCertificates gives the members another certificate, and resets every
// client's connection, so that it is used at once.
func (c *Cluster) RotateCertificates(t testing.TB) {
	t.Helper()
	if c.certs == nil {
		t.Fatalf("etcdtest: rotate certificates: the cluster has no TLS")
	}
	if err := c.certs.renew(); err != nil {
		t.Fatalf("etcdtest: rotate certificates: %v", err)
	}
	for _, m := range c.Members() {
		m.Reset()
	}
}

// TLS is a client's configuration that trusts the members and shows a certificate with that common
// name. It is nil without Options.TLS.
func (c *Cluster) TLS(commonName string) *tls.Config {
	if c.certs == nil {
		return nil
	}
	cfg, err := c.certs.client(commonName)
	if err != nil {
		panic("etcdtest: make a certificate: " + err.Error())
	}
	return cfg
}
