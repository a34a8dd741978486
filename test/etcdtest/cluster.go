package etcdtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// BinaryEnv names the environment variable that holds the path of an etcd binary, for clusters of
// another version. See ClusterOptions.Binary.
const BinaryEnv = "ETCDTEST_BINARY"

// ClusterOptions change what StartClusterWith starts. The zero value is a cluster of this module's
// etcd version with etcd's default timings (a heartbeat of 100 ms, an election timeout of 10
// heartbeats, leases of 2 s and more) that does not wait for its disk.
type ClusterOptions struct {
	// Options are those of each member. Here a Heartbeat of 0 means 100 ms.
	Options
	// Binary is an etcd server to run in place of the one in the test binary. If it is "", that is
	// what the environment variable ETCDTEST_BINARY names, and without it the test binary itself.
	// Versions 3.4 and later work.
	Binary string
	// StallableDisk makes Member.StallDisk possible. It needs a kernel that lets a process
	// supervise another's system calls (Linux 5.5 or later, and no sandbox that prevents it). The
	// members then wait for their disk.
	StallableDisk bool
	// JWT makes the members issue JSON web tokens. Every member knows each of them, even one that
	// joins later. A simple token, the default, is known to those that had joined when it was
	// issued.
	JWT bool
}

// Cluster is a real etcd cluster. It has one process for each member, and proxies in front of every
// member's clients and between every two members. Its methods may be called from any goroutine.
// Those that take a testing.TB fail it when they cannot do what they say.
type Cluster struct {
	opts    ClusterOptions
	dir     string
	name    string // the cluster's token
	certs   *authority
	version string // of the binary; "" for the test binary
	t       testing.TB
	peers   *peerNetwork

	mu      sync.Mutex
	members []*Member
	gone    []*Member // removed
	nth     int       // of the next member
	login   *login
}

// StartCluster starts a cluster of n members, 1, 3 or 5, that lasts until the end of the test. It
// returns once all of them serve requests.
//
// The members are processes of the test binary itself, which becomes a server when it is started
// again with an environment variable of this package. That needs nothing from the test: no
// TestMain, nothing installed. It happens while packages are initialised, so packages that are
// initialised before this one are initialised in the members too.
//
// It needs Linux. Elsewhere the test is skipped.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	return StartClusterWith(t, n, ClusterOptions{})
}

// StartClusterWith is StartCluster with options.
func StartClusterWith(t testing.TB, n int, o ClusterOptions) *Cluster {
	t.Helper()
	if !clusters {
		t.Skip("etcdtest: clusters of processes need Linux")
	}
	if n != 1 && n != 3 && n != 5 {
		t.Fatalf("etcdtest: start a cluster: %d members, want 1, 3 or 5", n)
	}
	o.Binary = cmp.Or(o.Binary, os.Getenv(BinaryEnv))
	o.Heartbeat = cmp.Or(o.Heartbeat, 100*time.Millisecond)
	o.Fsync = o.Fsync || o.StallableDisk
	c := &Cluster{opts: o, dir: t.TempDir(), t: t, name: "etcdtest-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	c.peers = newPeerNetwork()
	t.Cleanup(c.stop)
	if err := c.start(n); err != nil {
		t.Fatalf("etcdtest: start a cluster: %v", err)
	}
	return c
}

func (c *Cluster) start(n int) error {
	var err error
	if c.opts.Binary != "" {
		if c.version, err = versionOf(c.opts.Binary); err != nil {
			return err
		}
	}
	if c.opts.TLS {
		if c.certs, err = newAuthority(filepath.Join(c.dir, "certs")); err != nil {
			return err
		}
	}
	if c.opts.JWT {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if err := os.WriteFile(c.jwtKey(), key, 0o600); err != nil {
			return err
		}
	}
	for range n {
		if _, err := c.newMember(); err != nil {
			return err
		}
	}
	all := c.Members()
	initial := initialCluster(all)
	for _, m := range all {
		m.initial, m.state = initial, "new"
		if err := m.launch(); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := m.ready(startTimeout); err != nil {
			return err
		}
	}
	return nil
}

// jwtKey is the file of the key with which members sign tokens.
func (c *Cluster) jwtKey() string { return filepath.Join(c.dir, "jwt.key") }

// stop ends all that the cluster consists of.
func (c *Cluster) stop() {
	c.mu.Lock()
	all := append(c.gone, c.members...)
	c.mu.Unlock()
	for _, m := range all {
		m.close()
	}
	c.peers.close()
}

// Members returns the members, in the order in which they were added.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Member(nil), c.members...)
}

// Member returns the i-th member, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.Members()[i] }

// Endpoints are the addresses of all members for a client's configuration. Each is that of the
// proxy in front of the member.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members() {
		all = append(all, m.Endpoint())
	}
	return all
}

// Leader returns the member that leads, as most members see it. It waits until
// there is one.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if m := c.leader(ctx); m != nil {
			return m
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("etcdtest: leader: none within %v", startTimeout)
			return nil
		}
	}
}

// leader queries all members for the leader, and returns the answer with the highest term.
func (c *Cluster) leader(ctx context.Context) *Member {
	all := c.Members()
	type view struct{ leader, term uint64 }
	views := make([]view, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { // ends within a second
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if s, err := m.status(ctx); err == nil {
				views[i] = view{s.Leader, s.RaftTerm}
			}
		})
	}
	wg.Wait()
	var best view
	for _, v := range views {
		if v.leader != 0 && v.term > best.term {
			best = v
		}
	}
	for _, m := range all {
		if id := m.ID(); id != 0 && id == best.leader && m.running() {
			return m
		}
	}
	return nil
}

// Follower returns a member that runs and does not lead.
func (c *Cluster) Follower(t testing.TB) *Member {
	t.Helper()
	_, follower := c.pair(t)
	return follower
}

// pair returns the leader and a follower, as one reading shows them.
func (c *Cluster) pair(t testing.TB) (leader, follower *Member) {
	t.Helper()
	leader = c.Leader(t)
	for _, m := range c.Members() {
		if m != leader && m.running() {
			return leader, m
		}
	}
	t.Fatalf("etcdtest: follower: none runs")
	return nil, nil
}

// Conn returns a plain gRPC connection to the i-th member, past its proxy, for its generated stubs.
// It is for oracles, which faults must not touch. It is closed at the end of the test.
func (c *Cluster) Conn(t testing.TB, i int) *grpc.ClientConn {
	t.Helper()
	return c.Member(i).Conn(t)
}

// Heal ends the faults of the network and of every member. Paused members continue, dead ones are
// started again, and disks answer. It returns once all of them serve.
func (c *Cluster) Heal(t testing.TB) {
	t.Helper()
	for _, m := range c.Members() {
		m.Heal(t)
	}
	for _, m := range c.Members() {
		if !m.running() {
			if err := m.launch(); err != nil {
				t.Fatalf("etcdtest: heal: %v", err)
			}
		}
	}
	for _, m := range c.Members() {
		if err := m.ready(startTimeout); err != nil {
			t.Fatalf("etcdtest: heal: %v", err)
		}
	}
}

func initialCluster(members []*Member) string {
	s := ""
	for i, m := range members {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprintf("%s=%s", m.name, m.peerURL())
	}
	return s
}
