package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// ttl grants the shortest lease that pawl accepts, and revokes it.
func (d *doctor) ttl(ctx context.Context, c *pawl.Client) error {
	var resp *pb.LeaseGrantResponse
	err := d.call(ctx, c, cluster.Request{Op: "lease grant"}, func(ctx context.Context, m *cluster.Member) (h *pb.ResponseHeader, err error) {
		resp, err = pb.NewLeaseClient(m).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(lease.MinTTL / time.Second)})
		return resp.GetHeader(), err
	})
	switch {
	case cluster.IsNoSpace(err):
		d.wrong("ttl", "", "no lease is granted: the database is full", "see the alarm above")
		return nil
	case err != nil:
		return fmt.Errorf("no lease is granted, so no lock can be acquired: %w", err)
	}
	_ = d.call(ctx, c, cluster.Request{Op: "lease revoke"}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewLeaseClient(m).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: resp.ID})
		return resp.GetHeader(), err
	}) // otherwise it expires
	granted := time.Duration(resp.TTL) * time.Second
	switch {
	case granted > lease.DefaultTTL:
		d.odd("ttl", "", fmt.Sprintf("the shortest lease is %v, longer than pawl's default of %v: sessions get this TTL instead, and the lock of a dead holder stays taken that long", granted, lease.DefaultTTL),
			"lower the members' --election-timeout: the shortest lease is one and a half times that")
	case granted > lease.MinTTL:
		d.ok("ttl", "", "the shortest lease is %v; a session that requests less gets that", granted)
	default:
		d.ok("ttl", "", "leases of %v and more are granted as requested", granted)
	}
	return nil
}

// permissions checks the permissions for sessions, and for locks under prefix. The latter may be in
// two places, one of which may be enough, because pawl's layout keeps names with a slash apart, and
// etcd's does not.
func (d *doctor) permissions(ctx context.Context, c *pawl.Client, namespace, prefix string) error {
	own := keys.SessionRoot(namespace)
	names := slices.DeleteFunc(inspect.Scope{Prefix: prefix}.Prefixes(namespace), func(p string) bool {
		return strings.HasPrefix(p, own) // semaphores, for which the permission for sessions suffices
	})
	before := d.counts[isWrong] + d.counts[isOdd]
	for _, may := range []permission{{"read", mayRead}, {"write", mayWrite}} {
		lacks, err := may.lacks(ctx, c, own)
		if err != nil {
			return err
		}
		d.denied(d.wrong, may, lacks, "sessions cannot be made")
		if lacks, err = may.lacks(ctx, c, names...); err != nil {
			return err
		}
		report := d.wrong
		if len(lacks) < len(names) {
			report = d.odd
		}
		d.denied(report, may, lacks, "locks and elections there cannot be acquired")
	}
	if d.counts[isWrong]+d.counts[isOdd] == before {
		var all []string
		for _, p := range append([]string{own}, names...) {
			all = append(all, strconv.Quote(p))
		}
		d.ok("permission", "", "this user may read and write the keys from %s", strings.Join(all, " and from "))
	}
	return nil
}

// A permission is something that a user may or may not do.
type permission struct {
	what  string
	check func(ctx context.Context, c *pawl.Client, prefix string) error
}

// lacks returns the prefixes for which it is denied.
func (may permission) lacks(ctx context.Context, c *pawl.Client, prefixes ...string) (denied []string, err error) {
	for _, p := range prefixes {
		err := may.check(ctx, c, p)
		switch {
		case cluster.IsPermissionDenied(err):
			denied = append(denied, p)
		case err != nil && !cluster.IsNoSpace(err):
			return nil, err
		}
	}
	return denied, nil
}

func (d *doctor) denied(report func(check, subject, says, do string), may permission, prefixes []string, why string) {
	for _, p := range prefixes {
		report("permission", fmt.Sprintf("keys from %q", p), fmt.Sprintf("this user may not %s all of them: %s", may.what, why),
			fmt.Sprintf("etcdctl role grant-permission --prefix ROLE readwrite %s, or check a narrower PREFIX", cli.ShellWord(p)))
	}
}

// mayRead reads at most one key's name, unsorted, because to sort them etcd would read them
// all.
func mayRead(ctx context.Context, c *pawl.Client, prefix string) error {
	from := []byte(prefix)
	if prefix == "" {
		from = []byte{0} // the first key there can be
	}
	one := &pb.RangeRequest{Key: from, RangeEnd: txn.PrefixEnd(prefix), Limit: 1, KeysOnly: true}
	return transact(ctx, c, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: one}}}})
}

// mayWrite requests a put that never happens. etcd checks the permissions for both branches of a
// transaction.
func mayWrite(ctx context.Context, c *pawl.Client, prefix string) error {
	key := prefix + "pawl-doctor"
	return transact(ctx, c, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, math.MaxInt64)},
		Success: []*pb.RequestOp{txn.Put(key, nil, 0)},
		Failure: []*pb.RequestOp{txn.Stat(key)},
	})
}

func transact(ctx context.Context, c *pawl.Client, t *pb.TxnRequest) error {
	host, err := hooks.HostOf(c)
	if err != nil {
		return err
	}
	_, err = host.Cluster.Txn(ctx, cluster.Request{Op: "permission", Repeat: cluster.Always}, t)
	return err
}
