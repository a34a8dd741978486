package etcdtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// quick is a cluster that elects within half a second.
func quick(t *testing.T, n int, o ClusterOptions) *Cluster {
	t.Helper()
	o.Heartbeat = 50 * time.Millisecond
	return StartClusterWith(t, n, o)
}

// through is a client of a member, through its proxy.
func through(t *testing.T, m *Member) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if tls := m.cluster.TLS("root"); tls != nil {
		creds = credentials.NewTLS(tls)
	}
	conn, err := grpc.NewClient("passthrough:///"+m.Addr(), grpc.WithTransportCredentials(creds), grpc.WithConnectParams(quickly))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func put(conn *grpc.ClientConn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k")})
	return err
}

// recovers waits until a write through the connection succeeds.
func recovers(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	require.Eventually(t, func() bool { return put(conn, 2*time.Second) == nil }, testscale.Hang, 20*time.Millisecond)
}

func TestAKilledMemberComesBackWithItsData(t *testing.T) {
	t.Parallel()
	c := quick(t, 1, ClusterOptions{})
	m := c.Member(0)
	conn := through(t, m)
	recovers(t, conn)
	before := c.Revision(t)
	m.Kill()
	require.Error(t, put(conn, time.Second))
	m.Restart(t)
	assert.Equal(t, before, c.Revision(t))
	recovers(t, conn)
}

func TestAPausedMemberIsSilentUntilItIsResumed(t *testing.T) {
	t.Parallel()
	c := quick(t, 3, ClusterOptions{})
	m := c.Leader(t)
	conn := through(t, m)
	recovers(t, conn)
	m.Pause(t)
	require.Equal(t, codes.DeadlineExceeded, status.Code(put(conn, time.Second)))
	require.Eventually(t, func() bool { l := c.leader(t.Context()); return l != nil && l != m }, testscale.Hang, 20*time.Millisecond,
		"the others elect another leader")
	m.Resume(t)
	recovers(t, conn)
}

func TestAnIsolatedMemberIsReachedByClientsButNotByPeers(t *testing.T) {
	t.Parallel()
	for name, isolate := range map[string]func(*Member){
		"both ways": (*Member).Isolate, "inbound": (*Member).IsolateInbound, "outbound": (*Member).IsolateOutbound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick(t, 3, ClusterOptions{})
			m := c.Follower(t)
			conn := through(t, m)
			recovers(t, conn)
			isolate(m)
			require.Error(t, put(conn, 2*time.Second), "it cannot agree with anybody")
			ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
			defer cancel()
			_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("k"), Serializable: true})
			require.NoError(t, err, "it still hears and answers clients")
			recovers(t, through(t, c.Leader(t))) // the others agree
			m.Heal(t)
			recovers(t, conn)
		})
	}
}

// A member that is isolated in one direction works in the other: one that only receives from
// its peers learns what they write; one that only sends does not, and misses its leader.
func TestAMemberThatIsIsolatedOneWayStillReceivesOrSends(t *testing.T) {
	t.Parallel()
	c := quick(t, 3, ClusterOptions{})
	leader, m := c.pair(t)
	own := pb.NewKVClient(through(t, m))
	others := through(t, leader)
	there := func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		r, err := own.Range(ctx, &pb.RangeRequest{Key: []byte("k"), Serializable: true})
		return len(r.GetKvs()) == 1, err
	}
	becomes := func(want bool) bool { // a slow machine may not answer in time
		is, err := there()
		return err == nil && is == want
	}
	follows := func() bool {
		s, err := m.status(t.Context())
		return err == nil && s.Leader != 0
	}
	require.Eventually(t, func() bool { return becomes(false) }, testscale.Hang, 20*time.Millisecond)
	m.IsolateOutbound()
	recovers(t, others)
	require.Eventually(t, func() bool { // a write's commit comes with the next one, because it cannot confirm
		_, err := pb.NewKVClient(others).Put(within(t), &pb.PutRequest{Key: []byte("k")})
		return err == nil && becomes(true)
	}, testscale.Hang, 20*time.Millisecond, "it hears")
	m.Heal(t)
	require.Eventually(t, follows, testscale.Hang, 20*time.Millisecond)
	m.IsolateInbound()
	require.Eventually(t, func() bool { return !follows() }, testscale.Hang, 20*time.Millisecond, "it does not hear")
	require.Eventually(t, func() bool {
		_, err := pb.NewKVClient(others).DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("k")})
		return err == nil
	}, testscale.Hang, 20*time.Millisecond)
	require.Eventually(t, func() bool { // the first answer
		is, err := there()
		return err == nil && assert.True(t, is, "nor does it learn what is written")
	}, testscale.Hang, 20*time.Millisecond)
	m.Heal(t)
	require.Eventually(t, func() bool { return becomes(false) }, testscale.Hang, 20*time.Millisecond)
}

func TestAStalledDiskHoldsUpWritesAndNotTheWholeProcess(t *testing.T) {
	t.Parallel()
	c := quick(t, 1, ClusterOptions{StallableDisk: true})
	m := c.Member(0)
	conn := through(t, m)
	recovers(t, conn)
	m.StallDisk(t)
	require.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Unavailable}, status.Code(put(conn, time.Second)))
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	_, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{})
	require.NoError(t, err)
	m.Heal(t)
	recovers(t, conn)
	m.StallDisk(t)
	m.Kill()
	m.Restart(t)
	recovers(t, conn)
}
