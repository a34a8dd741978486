package session

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// operator is a root user's view of the cluster.
type operator struct {
	t    *testing.T
	auth pb.AuthClient
	kv   pb.KVClient
}

// withAuth is inBubble with authentication on: root, and a user "app" who may
// read and write what begins with "ns".
func withAuth(t *testing.T, o etcdfake.Options, f func(t *testing.T, r *rig, op operator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(o)
		t.Cleanup(fake.Close)
		conn, err := grpc.NewClient("passthrough:///"+fake.Endpoints()[0], fake.DialOption(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		op := operator{t, pb.NewAuthClient(conn), pb.NewKVClient(conn)}
		op.addUser("root", "root", "", "")
		op.addUser("app", "app", "ns", "nt")
		op.enable()

		c, err := cluster.Dial(context.Background(), cluster.Config{
			Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption(), opnames.DialOption()}, Username: "app", Password: "pw",
		})
		require.NoError(t, err)
		h := Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Cleanup: &cleanup.Group{}, Namespace: "ns"}
		t.Cleanup(func() {
			h.Cleanup.Close(2 * time.Second)
			h.Watches.Close()
			require.NoError(t, c.Close())
		})
		f(t, &rig{fake, t, h}, op)
	})
}

func (o operator) addUser(user, role, key, end string) {
	ctx := o.ctx()
	_, err := o.auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: user, Password: "pw"})
	require.NoError(o.t, err)
	_, err = o.auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: role})
	require.NoError(o.t, err)
	if key != "" {
		_, err = o.auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: &authpb.Permission{
			PermType: etcdapi.PermissionReadWrite, Key: []byte(key), RangeEnd: []byte(end),
		}})
		require.NoError(o.t, err)
	}
	_, err = o.auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: user, Role: role})
	require.NoError(o.t, err)
}

func (o operator) enable() {
	_, err := o.auth.AuthEnable(o.ctx(), &pb.AuthEnableRequest{})
	require.NoError(o.t, err)
}

func (o operator) disable() {
	_, err := o.auth.AuthDisable(o.ctx(), &pb.AuthDisableRequest{})
	require.NoError(o.t, err)
}

// ctx carries root's token, if there is one.
func (o operator) ctx() context.Context {
	resp, err := o.auth.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "root", Password: "pw"})
	if err != nil {
		return context.Background()
	}
	return metadata.AppendToOutgoingContext(context.Background(), "token", resp.Token)
}

// Hazard C5: a session outlives its tokens, which end while it sleeps.
func TestASessionOutlivesItsTokens(t *testing.T) {
	withAuth(t, etcdfake.Options{Members: 3, TokenTTL: 2 * time.Second}, func(t *testing.T, r *rig, _ operator) {
		s := r.session(lease.Options{TTL: 12 * time.Second})
		sleep(time.Minute)
		require.NoError(t, s.Err())
		r.Revoke(s.ID())
		sleep(100 * time.Millisecond)
		oneCause(t, s.Err(), lease.ErrRevoked)
	})
}

// Hazard C6: authentication that is switched off and on again.
func TestASessionOutlivesAuthenticationBeingSwitched(t *testing.T) {
	withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, op operator) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		for range 5 {
			op.disable()
			sleep(10 * time.Second)
			require.NoError(t, s.Err())
			op.enable()
			sleep(10 * time.Second)
			require.NoError(t, s.Err())
		}
		require.NoError(t, s.Close(context.Background()))
		assert.Empty(t, r.Leases())
	})
}

// Hazard S17, fact F5, rule N4: a foreign key on a session's lease makes the renewals of that session
// fail, and of no other. Its cause is reported, and its lease ends.
// rule: N4
func TestAForeignKeyPoisonsOneSessionAlone(t *testing.T) {
	withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, op operator) {
		a, b := r.session(lease.Options{TTL: 6 * time.Second}), r.session(lease.Options{TTL: 6 * time.Second})
		_, err := op.kv.Put(op.ctx(), &pb.PutRequest{Key: []byte("foreign"), Lease: a.ID()})
		require.NoError(t, err)
		<-a.Done()
		oneCause(t, a.Err(), lease.ErrExpired)
		assert.ErrorContains(t, a.Err(), "permission denied")
		sleep(time.Minute)
		require.NoError(t, b.Err())
		assert.Len(t, r.bothPicked(), 3, "no member is blamed")
		assert.Len(t, r.Leases(), 1)
	})
}

// A permission that is lost for a moment does not end the session. One that is lost for good ends it at
// the deadline.
func TestPermissionThatIsLostForGoodEndsTheSessionAtItsDeadline(t *testing.T) {
	withAuth(t, etcdfake.Options{}, func(t *testing.T, r *rig, op operator) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		revoke := func() {
			_, err := op.auth.UserRevokeRole(op.ctx(), &pb.AuthUserRevokeRoleRequest{Name: "app", Role: "app"})
			require.NoError(t, err)
		}
		revoke()
		sleep(3 * time.Second)
		_, err := op.auth.UserGrantRole(op.ctx(), &pb.AuthUserGrantRoleRequest{User: "app", Role: "app"})
		require.NoError(t, err)
		sleep(time.Minute)
		require.NoError(t, s.Err())
		revoke()
		<-s.Done()
		oneCause(t, s.Err(), lease.ErrExpired)
		assert.ErrorContains(t, s.Err(), "permission denied")
	})
}

func TestTheErrorOfAUserWithoutPermissionSaysWhatTheRoleNeeds(t *testing.T) {
	withAuth(t, etcdfake.Options{}, func(t *testing.T, r *rig, _ operator) {
		h := r.host
		h.Namespace = "other"
		_, err := Grant(context.Background(), h, lease.Options{})
		require.Error(t, err)
		assert.ErrorContains(t, err, `"other//pawl/"`)
		sleep(time.Second)
		assert.Empty(t, r.Leases())
	})
}

// refusing makes a member refuse every token, as one with another key or clock does.
func refusing(c *etcdfake.Cluster, m *etcdfake.Member) {
	for _, method := range []string{"LeaseKeepAlive", "Txn"} {
		c.Inject(etcdfake.Rule{Member: m, Method: method, Err: rpctypes.ErrGRPCInvalidAuthToken})
	}
}

// Rule N3 with authentication on: no single member can end a session while tokens end too. A member
// that refuses every token does not cause repeated logins at others. Logins at the member itself are
// rare.
// rule: N3
func TestSessionSurvivesAnyFaultOfAnyOneMemberOfThreeWithAuthenticationOn(t *testing.T) {
	faults := append(slices.Clone(oneMembersFaults), fault{"refuses every token", refusing},
		fault{"never answers Authenticate", func(c *etcdfake.Cluster, m *etcdfake.Member) {
			c.Inject(etcdfake.Rule{Member: m, Method: "Authenticate", Hang: true})
		}})
	for _, tr := range faults {
		for _, ttl := range testscale.Of([]time.Duration{3}, []time.Duration{3, 5, 15}) {
			t.Run(fmt.Sprintf("%s/%ds", tr.name, ttl), func(t *testing.T) {
				withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, op operator) {
					s := r.session(lease.Options{TTL: ttl * time.Second})
					for i := range 3 {
						sleep(time.Duration(i) * 777 * time.Millisecond) // other phases
						before := r.Counts().Received["Authenticate"]
						tr.on(r.Cluster, r.Member(i))
						sleep(5 * ttl * time.Second)
						require.NoError(t, s.Err(), "member %d", i)
						logins := r.Counts().Received["Authenticate"] - before
						assert.LessOrEqual(t, logins, 5, "member %d", i) // one for all members, and few at this one
						r.ForgetTokens()
						sleep(5 * ttl * time.Second)
						require.NoError(t, s.Err(), "member %d, tokens ended", i)
						r.LiftAll()
						r.Member(i).Heal()
						sleep(ttl * time.Second)
					}
				})
			})
		}
	}
}

// That a member is blamed for its refusals is logged, and the others are queried.
// rule: N3
func TestAMemberThatRefusesEveryTokenIsBlamedItself(t *testing.T) {
	withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, _ operator) {
		s := r.session(lease.Options{TTL: 3 * time.Second})
		refusing(r.Cluster, r.Member(1))
		sleep(time.Minute)
		require.NoError(t, s.Err())
		before := r.Counts().Received["Authenticate"]
		blamed := 0
		for range 60 {
			sleep(time.Second)
			if len(r.bothPicked()) == 2 {
				blamed++
			}
		}
		assert.Greater(t, blamed, 30)
		assert.LessOrEqual(t, r.Counts().Received["Authenticate"], before+4, "logins: few at that member")
		require.NoError(t, s.Err())
	})
}
