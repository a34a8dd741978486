package session

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// rig is an etcd in memory and what sessions on it need.
type rig struct {
	*etcdfake.Cluster
	t    *testing.T
	host Host
}

// inBubble runs f in a bubble with a cluster and one client of it. That the bubble ends proves that no
// goroutine is left.
func inBubble(t *testing.T, o etcdfake.Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(o)
		t.Cleanup(fake.Close)
		f(t, newRig(t, fake))
	})
}

func newRig(t *testing.T, fake *etcdfake.Cluster) *rig {
	t.Helper()
	return &rig{fake, t, newHost(t, fake, "ns")}
}

// newHost is a new client, with connections to all members, so that delays that a test sets do not
// delay these. It is closed at the end of the test.
func newHost(t *testing.T, fake *etcdfake.Cluster, namespace string, opts ...grpc.DialOption) Host {
	t.Helper()
	c, err := cluster.Dial(context.Background(), cluster.Config{
		Endpoints: fake.Endpoints(), DialOptions: append(opts, fake.DialOption(), opnames.DialOption()),
	})
	require.NoError(t, err)
	synctest.Wait()
	h := Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Cleanup: &cleanup.Group{}, Namespace: namespace}
	t.Cleanup(func() {
		h.Cleanup.Close(2 * time.Second)
		h.Watches.Close()
		require.NoError(t, c.Close())
	})
	return h
}

// session grants a session that ends with the test.
func (r *rig) session(o lease.Options) *Session {
	r.t.Helper()
	return sessionOn(r.t, r.host, o)
}

func sessionOn(t *testing.T, h Host, o lease.Options) *Session {
	t.Helper()
	s, err := Grant(context.Background(), h, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.CloseInBackground()
		<-s.Stopped()
	})
	return s
}

// renewals is how many renewals the members have received.
func (r *rig) renewals() int { return r.Counts().Received["LeaseKeepAlive"] }

// expiry is when the server lets the lease of s expire.
func (r *rig) expiry(s *Session) time.Time {
	r.t.Helper()
	l, ok := r.Lease(s.ID())
	require.True(r.t, ok, "the lease is gone")
	return l.Expires
}

// oneCause asserts that err matches want and no other of the causes (N5).
func oneCause(t *testing.T, err, want error) {
	t.Helper()
	require.ErrorIs(t, err, want)
	for _, other := range []error{lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, cluster.ErrChanged} {
		if other != want {
			require.NotErrorIs(t, err, other)
		}
	}
}

// requireEnded asserts that s has ended because of want, according to Err, Deadline, Done and Context,
// and stays so.
func requireEnded(t *testing.T, s *Session, want error) {
	t.Helper()
	for range 3 {
		oneCause(t, s.Err(), want)
		require.True(t, s.Deadline().IsZero(), "a dead session has no deadline")
		require.Error(t, s.Context().Err())
		require.Equal(t, s.Err(), context.Cause(s.Context()), "Err and the context's cause are one")
		<-s.Done()
	}
}

// keysOf are the keys at the server that belong to the session key.
func (r *rig) keysOf(s *Session) []string {
	var out []string
	for _, k := range r.Keys("") {
		if strings.HasPrefix(k, s.own.key) {
			out = append(out, k)
		}
	}
	return out
}

// sleep lets d pass, and waits until all that is due at its end is done.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// goroutines is how many there are.
func goroutines() int {
	synctest.Wait()
	return runtime.NumGoroutine()
}
