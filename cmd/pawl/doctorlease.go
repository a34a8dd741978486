package main

import (
	"context"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// ttl asks for the shortest lease that pawl takes, and revokes it.
func (d *doctor) ttl(ctx context.Context, c *pawl.Client) error {
	var resp *pb.LeaseGrantResponse
	err := d.call(ctx, c, "lease grant", func(ctx context.Context, m *cluster.Member) (h *pb.ResponseHeader, err error) {
		resp, err = m.Lease().LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(lease.MinTTL / time.Second)})
		return resp.GetHeader(), err
	})
	switch {
	case cluster.IsNoSpace(err):
		d.wrong("ttl", "", "no lease is granted: the database is full", "see the alarm above")
		return nil
	case err != nil:
		return fmt.Errorf("no lease is granted, so no lock can be taken: %w", err)
	}
	_ = d.call(ctx, c, "lease revoke", func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := m.Lease().LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: resp.ID})
		return resp.GetHeader(), err
	}) // else it expires
	granted := time.Duration(resp.TTL) * time.Second
	switch {
	case granted > lease.DefaultTTL:
		d.odd("ttl", "", fmt.Sprintf("the shortest lease is %v, longer than pawl's default of %v: sessions get it all the same, and a dead holder's lock stays as long", granted, lease.DefaultTTL),
			"lower the members' --election-timeout: the shortest lease is one and a half of it")
	case granted > lease.MinTTL:
		d.ok("ttl", "", "the shortest lease is %v; a session that asks for less gets that", granted)
	default:
		d.ok("ttl", "", "leases of %v and more are granted as they are asked for", granted)
	}
	return nil
}

// permissions asks for each permission that locks under prefix need.
func (d *doctor) permissions(ctx context.Context, c *pawl.Client, namespace, prefix string) error {
	own := namespace + "//pawl/"
	denied := 0
	for _, p := range []struct{ prefix, why string }{
		{own, "sessions cannot be had"},
		{namespace + prefix, "locks and elections there cannot be had"},
	} {
		for _, may := range []struct {
			what string
			ask  func(context.Context, *pawl.Client, string) error
		}{{"read", mayRead}, {"write", mayWrite}} {
			err := may.ask(ctx, c, p.prefix)
			if cluster.IsPermissionDenied(err) {
				denied++
				d.wrong("permission", fmt.Sprintf("keys from %q", p.prefix), fmt.Sprintf("this user may not %s all of them: %s", may.what, p.why),
					fmt.Sprintf("etcdctl role grant-permission --prefix ROLE readwrite %q, or check a narrower PREFIX", p.prefix))
			} else if err != nil && !cluster.IsNoSpace(err) {
				return err
			}
		}
	}
	if denied == 0 {
		d.ok("permission", "", "this user may read and write the keys from %q and from %q", own, namespace+prefix)
	}
	return nil
}

// mayRead reads no more than one key's name.
func mayRead(ctx context.Context, c *pawl.Client, prefix string) error {
	return transact(ctx, c, &pb.TxnRequest{Success: []*pb.RequestOp{txn.FirstUnder(prefix)}})
}

// mayWrite asks for a put that never happens: etcd looks at the permissions for
// both branches of a transaction.
func mayWrite(ctx context.Context, c *pawl.Client, prefix string) error {
	key := prefix + "pawl-doctor"
	return transact(ctx, c, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, math.MaxInt64)},
		Success: []*pb.RequestOp{txn.Put(key, nil, 0)},
		Failure: []*pb.RequestOp{txn.Look(key)},
	})
}

func transact(ctx context.Context, c *pawl.Client, t *pb.TxnRequest) error {
	host, err := inside.HostOf(c)
	if err != nil {
		return err
	}
	_, err = host.Cluster.Txn(ctx, cluster.Request{Op: "permission", Repeat: cluster.Always}, t)
	return err
}
