package conformance

import (
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

func (r *rig) user(name, password, role string) {
	resp, err := r.auth.UserAdd(r.ctx, &pb.AuthUserAddRequest{Name: name, Password: password, Options: &authpb.UserAddOptions{NoPassword: password == ""}})
	r.note("add user", resp, err)
	granted, err := r.auth.UserGrantRole(r.ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: role})
	r.note("grant role", granted, err)
}

func (r *rig) role(name string, perms ...*authpb.Permission) {
	resp, err := r.auth.RoleAdd(r.ctx, &pb.AuthRoleAddRequest{Name: name})
	r.note("add role", resp, err)
	for _, p := range perms {
		resp, err := r.auth.RoleGrantPermission(r.ctx, &pb.AuthRoleGrantPermissionRequest{Name: name, Perm: p})
		r.note("grant permission", resp, err)
	}
}

func perm(typ authpb.Permission_Type, key, end string) *authpb.Permission {
	return &authpb.Permission{PermType: typ, Key: []byte(key), RangeEnd: []byte(end)}
}

func (r *rig) enable() {
	resp, err := r.auth.AuthEnable(r.ctx, &pb.AuthEnableRequest{})
	r.note("enable", resp, err)
}

func (r *rig) status() {
	resp, err := r.auth.AuthStatus(r.ctx, &pb.AuthStatusRequest{})
	r.note("auth status", resp, err)
}

// people sets up root, and ann who has some permissions, and enables authentication.
func (r *rig) people() {
	r.role("root")
	r.user("root", "r", "root")
	r.role("ann", perm(etcdapi.PermissionReadWrite, "a", "b"), perm(etcdapi.PermissionRead, "b", "c"),
		perm(etcdapi.PermissionWrite, "w", ""), perm(etcdapi.PermissionReadWrite, "x", "\x00"))
	r.user("ann", "a", "ann")
	r.enable()
}

var authScripts = []script{
	{"before it is enabled", func(r *rig) {
		r.as("root", "r")
		r.as("", "")
		r.enable()
		r.role("ann")
		r.user("root", "r", "nothing")
		r.enable()
		r.role("root")
		r.user("root", "r", "root")
		r.role("ann", nil, perm(0, "", ""), perm(0, "b", "a"))
		r.role("")
		r.user("", "x", "ann")
		r.user("bob", "", "root")
		r.enable()
		r.status()
		r.as("root", "wrong")
		r.as("nobody", "x")
		r.as("bob", "x")
		r.as("root", "r")
		r.enable()
		r.status()
	}},
	{"permissions on keys", func(r *rig) {
		r.people()
		for _, who := range []string{"", "bad", "ann", "root"} {
			r.as(who, who[:min(1, len(who))])
			for _, k := range []string{"a", "a1", "b", "c", "w", "y"} {
				r.puts(k)
				r.get(span(k, ""))
				r.put(&pb.PutRequest{Key: []byte(k), PrevKv: true})
				r.del(&pb.DeleteRangeRequest{Key: []byte(k), PrevKv: true})
			}
			r.get(span("a", "c"))
			r.get(span("a", "d"))
			r.get(span("a", "\x00"))
			r.get(span("y", "\x00"))
			r.del(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b")})
			r.del(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("c")})
			r.txn(&pb.TxnRequest{Compare: []*pb.Compare{cmpTo("c", pb.Compare_EQUAL, create(0))}})
			r.txn(&pb.TxnRequest{Compare: []*pb.Compare{cmpTo("a", pb.Compare_EQUAL, create(0))}, Failure: ops(opPut(kput("c", "")))})
			r.txn(&pb.TxnRequest{Success: ops(opTxn(&pb.TxnRequest{Success: ops(opGet(span("w", "")))}))})
			r.txn(&pb.TxnRequest{Success: ops(opPut(kput("a", "")), opGet(span("a", "")), opDel(&pb.DeleteRangeRequest{Key: []byte("x")}))})
			r.compact(2)
			s, err := r.maint.Status(r.ctx, &pb.StatusRequest{})
			r.note("status", &pb.StatusResponse{Version: s.GetVersion()}, err)
			m, err := r.members.MemberList(r.ctx, &pb.MemberListRequest{})
			r.note("members", &pb.MemberListResponse{Header: m.GetHeader()}, err)
		}
	}},
	{"permissions on leases", func(r *rig) {
		r.people()
		r.grant(5, 60)
		r.as("root", "r")
		r.grant(7, 60)
		r.grant(8, 60)
		r.put(&pb.PutRequest{Key: []byte("a1"), Lease: 7})
		r.put(&pb.PutRequest{Key: []byte("c"), Lease: 8})
		r.renewals()(8)
		for _, who := range []string{"ann", "", "bad"} {
			r.as(who, who[:min(1, len(who))])
			r.renewals()(7)
			r.renewals()(8)
			r.renewals()(99)
			r.ttl(7, true)
			r.ttl(7, false)
			r.ttl(8, true)
			r.put(&pb.PutRequest{Key: []byte("a2"), Lease: 8})
			r.grant(9, 60)
			r.revoke(8)
			r.revoke(9)
			r.revoke(99)
			l, err := r.lease.LeaseLeases(r.ctx, &pb.LeaseLeasesRequest{})
			r.note("leases", &pb.LeaseLeasesResponse{Header: l.GetHeader()}, err)
		}
	}},
	{"permissions on watches", func(r *rig) {
		r.people()
		for _, who := range []string{"ann", "", "bad"} {
			r.as(who, who[:min(1, len(who))])
			w := r.watches()
			for _, k := range []string{"a", "c", "w"} {
				w.create(&pb.WatchCreateRequest{Key: []byte(k)})
				w.next()
			}
		}
	}},
	{"tokens end", func(r *rig) {
		r.people()
		r.as("ann", "a")
		for range 4 {
			time.Sleep(4 * time.Second) // each use gives a token its time again
			r.get(span("a", ""))
		}
		time.Sleep(7 * time.Second)
		r.get(span("a", ""))
		r.puts("a")
		r.renewals()(7)
		r.as("ann", "a")
		ann := r.ctx
		r.as("root", "r")
		changed, err := r.auth.UserChangePassword(r.ctx, &pb.AuthUserChangePasswordRequest{Name: "ann", Password: "new"})
		r.note("password", changed, err)
		r.ctx = ann
		r.get(span("a", ""))
		r.as("ann", "a")
		r.as("ann", "new")
		r.get(span("a", ""))
	}},
	{"permissions change", func(r *rig) {
		r.people()
		r.as("ann", "a")
		ann := r.ctx
		r.puts("a")
		r.as("root", "r")
		gone, err := r.auth.RoleRevokePermission(r.ctx, &pb.AuthRoleRevokePermissionRequest{Role: "ann", Key: []byte("a"), RangeEnd: []byte("b")})
		r.note("revoke permission", gone, err)
		again, err := r.auth.RoleRevokePermission(r.ctx, &pb.AuthRoleRevokePermissionRequest{Role: "ann", Key: []byte("a"), RangeEnd: []byte("b")})
		r.note("revoke permission", again, err)
		root := r.ctx
		r.ctx = ann
		r.puts("a", "x")
		r.role("more")
		me, err := r.auth.UserGet(r.ctx, &pb.AuthUserGetRequest{Name: "ann"})
		r.note("me", me, err)
		other, err := r.auth.UserGet(r.ctx, &pb.AuthUserGetRequest{Name: "root"})
		r.note("other", other, err)
		r.ctx = root
		taken, err := r.auth.UserRevokeRole(r.ctx, &pb.AuthUserRevokeRoleRequest{Name: "ann", Role: "ann"})
		r.note("revoke role", taken, err)
		taken, err = r.auth.UserRevokeRole(r.ctx, &pb.AuthUserRevokeRoleRequest{Name: "root", Role: "root"})
		r.note("revoke role", taken, err)
		deleted, err := r.auth.UserDelete(r.ctx, &pb.AuthUserDeleteRequest{Name: "root"})
		r.note("delete user", deleted, err)
		r.ctx = ann
		r.puts("x")
		r.ctx = root
		deleted, err = r.auth.UserDelete(r.ctx, &pb.AuthUserDeleteRequest{Name: "ann"})
		r.note("delete user", deleted, err)
		r.ctx = ann
		r.puts("x")
		r.ctx = root
		off, err := r.auth.AuthDisable(r.ctx, &pb.AuthDisableRequest{})
		r.note("disable", off, err)
		r.ctx = ann
		r.puts("x")
		r.status()
	}},
}
