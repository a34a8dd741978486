package conformance

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// renewals opens a stream and returns a function that sends one renewal on it.
func (r *rig) renewals() func(id int64) {
	s, err := r.lease.LeaseKeepAlive(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return func(id int64) {
		_ = s.Send(&pb.LeaseKeepAliveRequest{ID: id})
		resp, err := s.Recv()
		r.note("renew", resp, err)
	}
}

var leaseScripts = []script{
	{"grant, renew, revoke", func(r *rig) {
		r.grant(7, 60)
		r.grant(7, 60)
		r.grant(8, 1)
		r.grant(9, 9_000_000_001)
		r.grant(10, 0)
		r.grant(-5, 5)
		auto, err := r.lease.LeaseGrant(r.ctx, &pb.LeaseGrantRequest{TTL: 60})
		r.note("grant without ID", &pb.LeaseGrantResponse{Header: auto.GetHeader(), TTL: auto.GetTTL()}, err)
		if auto.GetID() <= 0 {
			r.t.Error("no positive ID")
		}
		renew := r.renewals()
		renew(7)
		renew(99)
		r.revoke(7)
		renew(7)
		r.revoke(7)
		r.revoke(0)
		r.ttl(7, true)
		r.ttl(8, true)
	}},
	{"revocation deletes all keys in one revision", func(r *rig) {
		r.grant(7, 60)
		r.grant(8, 60)
		for _, k := range []string{"c", "a", "b", "d"} {
			r.put(&pb.PutRequest{Key: []byte(k), Lease: 7})
		}
		r.put(&pb.PutRequest{Key: []byte("b"), Lease: 8})
		r.puts("d")
		r.ttl(8, true)
		r.revoke(7)
		r.get(span("a", "z"))
		r.revoke(8)
		r.grant(9, 60)
		r.revoke(9)
		r.get(span("a", "z"))
	}},
	{"deleted keys leave their lease", func(r *rig) {
		r.grant(7, 60)
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 7})
		r.del(&pb.DeleteRangeRequest{Key: []byte("a")})
		r.puts("a")
		r.ttl(7, true)
		r.revoke(7)
		r.get(span("a", "z"))
	}},
	{"expiry", func(r *rig) {
		r.grant(7, 5)
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 7})
		time.Sleep(2500 * time.Millisecond)
		r.ttl(7, false)
		renew := r.renewals()
		renew(7)
		time.Sleep(4900 * time.Millisecond)
		r.get(span("a", ""))
		r.ttl(7, false)
		time.Sleep(700 * time.Millisecond)
		r.get(span("a", ""))
		renew(7)
		r.ttl(7, true)
	}},
	{"renewal of an expired lease waits for its end", func(r *rig) {
		time.Sleep(50 * time.Millisecond) // so that no tick of the lessor falls on its expiry
		r.grant(7, 5)
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 7})
		renew := r.renewals()
		time.Sleep(5 * time.Second)
		renew(7)
		r.get(span("a", ""))
	}},
	{"leases by expiry", func(r *rig) {
		for i, ttl := range []int64{50, 30, 40} {
			r.grant(int64(i+1), ttl)
		}
		resp, err := r.lease.LeaseLeases(r.ctx, &pb.LeaseLeasesRequest{})
		r.note("leases", resp, err)
	}},
	{"header of a renewal", func(r *rig) {
		r.grant(7, 60)
		r.puts("a", "b")
		renew := r.renewals()
		renew(7)
		r.puts("c")
		renew(7)
	}},
}
