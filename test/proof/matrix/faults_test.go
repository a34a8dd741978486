package matrix

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// fault is a line of the table.
type fault struct {
	name    string
	options etcdtest.ClusterOptions
	auth    bool
	resends bool          // requests go through an interceptor that repeats them
	lasts   time.Duration // until it is healed; if 0, 3 s, or 1 s everyday
	// outlives: it lasts for longer than a TTL.
	outlives bool
	// loses: the session, or the lock, of whom it strikes may be lost.
	loses bool
	// strikes is what an operator takes away, of which nobody can learn before.
	strikes []string
	inject  func(t *testing.T, w *fixture)
	heal    func(t *testing.T, w *fixture) // beyond Cluster.Heal
}

// ttl is that of the sessions that f strikes.
func (f fault) ttl() time.Duration {
	if f.outlives {
		return testscale.Of(3*time.Second, 10*time.Second)
	}
	return 10 * time.Second
}

// duration is how long f lasts.
func (f fault) duration() time.Duration {
	lasts := cmp.Or(f.lasts, testscale.Of(time.Second, 3*time.Second))
	if f.outlives {
		lasts += f.ttl()
	}
	return lasts
}

var quota = etcdtest.ClusterOptions{Options: etcdtest.Options{QuotaBytes: 16 << 20}}

// faults are all that can strike a cluster of three.
var faults = []fault{
	{name: "no fault", lasts: time.Millisecond, inject: func(*testing.T, *fixture) {}},
	{name: "kill the leader", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).Kill() }},
	{name: "kill a follower", inject: func(t *testing.T, w *fixture) { w.c.Follower(t).Kill() }},
	{name: "restart the leader", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).Restart(t) }},
	{name: "restart every member in turn", lasts: time.Second, inject: func(t *testing.T, w *fixture) {
		for _, m := range w.c.Members() {
			m.Restart(t)
		}
	}},
	{name: "pause the leader", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).Pause(t) }},
	{name: "pause a follower", inject: func(t *testing.T, w *fixture) { w.c.Follower(t).Pause(t) }},
	{name: "pause a follower for longer than the TTL", outlives: true,
		inject: func(t *testing.T, w *fixture) { w.c.Follower(t).Pause(t) }},
	{name: "isolate the leader", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).Isolate() }},
	{name: "isolate the leader inbound", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).IsolateInbound() }},
	{name: "isolate the leader outbound", inject: func(t *testing.T, w *fixture) { w.c.Leader(t).IsolateOutbound() }},
	{name: "isolate a follower", inject: func(t *testing.T, w *fixture) { w.c.Follower(t).Isolate() }},
	{name: "isolate a follower for longer than the TTL", outlives: true,
		inject: func(t *testing.T, w *fixture) { w.c.Follower(t).Isolate() }},
	{name: "black hole before one member", inject: func(t *testing.T, w *fixture) { w.c.Member(0).BlackHole() }},
	{name: "black hole before the leader for longer than the TTL", outlives: true,
		inject: func(t *testing.T, w *fixture) { w.c.Leader(t).BlackHole() }},
	{name: "black hole before all members", inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).BlackHole) }},
	{name: "lose all answers", lasts: time.Second, inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).HoldAnswers) },
		heal: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).Reset) }},
	{name: "hold all requests", inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).HoldRequests) }},
	{name: "cut one member", inject: func(t *testing.T, w *fixture) { w.c.Member(1).Cut() }},
	{name: "cut all members", lasts: 2 * time.Second, inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).Cut) }},
	{name: "cut all members for longer than the TTL", outlives: true, loses: true,
		inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).Cut) }},
	{name: "reset all connections", lasts: time.Second, inject: func(_ *testing.T, w *fixture) { w.each((*etcdtest.Member).Reset) }},
	{name: "slow network", inject: func(_ *testing.T, w *fixture) {
		w.each(func(m *etcdtest.Member) { m.Slow(100 * time.Millisecond) })
	}},
	{name: "move the leader", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.MoveLeader(t, w.c.Follower(t)) }},
	{name: "stall the leader's disk", options: etcdtest.ClusterOptions{StallableDisk: true},
		inject: func(t *testing.T, w *fixture) { w.c.Leader(t).StallDisk(t) }},
	{name: "stall a follower's disk", options: etcdtest.ClusterOptions{StallableDisk: true},
		inject: func(t *testing.T, w *fixture) { w.c.Follower(t).StallDisk(t) }},
	{name: "fill the quota", options: quota, inject: func(t *testing.T, w *fixture) { w.c.FillQuota(t) },
		heal: func(t *testing.T, w *fixture) { w.c.FreeQuota(t) }},
	{name: "compact", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.Compact(t) }},
	{name: "defragment", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.Defragment(t) }},
	{name: "rotate certificates", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.RotateCertificates(t) },
		options: etcdtest.ClusterOptions{Options: etcdtest.Options{TLS: true}}},
	{name: "expire tokens", auth: true, lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.ExpireTokens(t) }},
	{name: "authentication off", auth: true, inject: func(t *testing.T, w *fixture) { w.c.DisableAuth(t) },
		heal: func(t *testing.T, w *fixture) { w.c.EnableAuth(t, password) }},
	{name: "replace a member", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.ReplaceMember(t, w.c.Follower(t)) }},
	{name: "remove the leader", lasts: time.Second, inject: func(t *testing.T, w *fixture) { w.c.RemoveMember(t, w.c.Leader(t)) },
		heal: func(t *testing.T, w *fixture) { w.c.AddMember(t) }},
	{name: "delete the key", loses: true, strikes: kinds, lasts: time.Second, inject: func(t *testing.T, w *fixture) {
		w.strike(t, func(key string) clientv3.Op { return clientv3.OpDelete(key) })
	}},
	{name: "overwrite the key", loses: true, strikes: kinds, lasts: time.Second, inject: func(t *testing.T, w *fixture) {
		w.strike(t, func(key string) clientv3.Op { return clientv3.OpPut(key, overwritten, clientv3.WithIgnoreLease()) })
	}},
	{name: "revoke the leases", loses: true, strikes: []string{aLease}, lasts: time.Second, inject: func(t *testing.T, w *fixture) {
		r, err := w.oracle.Leases(w.within(t))
		require.NoError(t, err)
		for _, l := range r.Leases {
			if w.bystander == nil || int64(l.ID) != w.bystander.ID() {
				if _, err := w.oracle.Revoke(w.within(t), l.ID); err == nil {
					w.struck[aLease]++
				}
			}
		}
	}},
}

func (w *fixture) each(f func(m *etcdtest.Member)) {
	for _, m := range w.c.Members() {
		f(m)
	}
}

// within is a context for a request of the oracle's.
func (w *fixture) within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	t.Cleanup(cancel)
	return ctx
}
