package etcdfake

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/wire"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// Options say what New builds. The zero value is one healthy member of the
// version this repository is tested with.
type Options struct {
	Members      int           // 1 if 0; at most 5
	Version      string        // what Status reports; 3.7.3 if ""
	ClusterID    uint64        // a fixed one if 0
	MinTTL       int64         // seconds; 2 if 0, the default of a real server
	MaxTxnOps    int           // 128 if 0
	Election     time.Duration // election timeout; 1 s if 0
	ExpiryTick   time.Duration // leases are deleted at its first multiple since New at or after their expiry; 500 ms if 0, at expiry if < 0
	TokenTTL     time.Duration // of auth tokens; 300 s if 0
	JWT          bool          // every member knows every auth token, also one that was issued before it joined
	MaxFragment  int           // bytes from which a watch answer is split, if asked for; 2 MiB if 0
	ProgressTick time.Duration // of watches that ask for progress notifications; 10 min if 0
	TLS          *tls.Config   // if nil, connections are not encrypted
}

// Cluster is an etcd cluster in memory. All its methods may be called from any
// goroutine. It must be closed.
type Cluster struct {
	opts    Options
	members []*Member
	started time.Time
	done    chan struct{}  // closed by Close
	kick    chan struct{}  // a lease may expire sooner than the expirer thinks
	wg      sync.WaitGroup // every goroutine that is not gRPC's

	mu        sync.Mutex
	closed    bool
	state     *etcd.State
	clusterID uint64
	term      uint64
	leader    int           // index of the member that leads, or -1
	voting    bool          // the leader has halted, and none is elected yet
	changed   chan struct{} // closed and replaced when a member's or the leader's contact with its peers changes
	faults    []*Fault
	history   []Change
	observers []func(Change)
	serial    int64 // of generated lease IDs
}

// New starts a cluster. Inside a synctest bubble it belongs to that bubble.
func New(o Options) *Cluster {
	o = o.filled()
	c := &Cluster{
		opts: o, started: time.Now(), clusterID: o.ClusterID, term: 2,
		done: make(chan struct{}), kick: make(chan struct{}, 1), changed: make(chan struct{}),
		serial: 7587_0000_0000_0000,
	}
	c.state = &etcd.State{Store: etcd.NewStore(), Lessor: etcd.NewLessor(o.MinTTL), Auth: etcd.NewAuth(o.TokenTTL), Notify: c.committed}
	for i := range o.Members {
		c.members = append(c.members, newMember(c, i))
	}
	for _, m := range c.members {
		m.start()
	}
	c.wg.Go(c.expire) // ends when done is closed
	return c
}

func (o Options) filled() Options {
	setDefault(&o.Members, 1)
	if o.Members > 5 {
		panic("etcdfake: at most 5 members")
	}
	setDefault(&o.Version, "3.7.3")
	setDefault(&o.ClusterID, 0xcdf818194e3a8c32)
	setDefault(&o.MinTTL, 2)
	setDefault(&o.MaxTxnOps, 128)
	setDefault(&o.Election, time.Second)
	setDefault(&o.ExpiryTick, 500*time.Millisecond)
	setDefault(&o.TokenTTL, 300*time.Second)
	setDefault(&o.MaxFragment, 2<<20)
	setDefault(&o.ProgressTick, 10*time.Minute)
	return o
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Close stops the members and waits until every goroutine has ended. What is
// still in progress fails. It can be called twice.
func (c *Cluster) Close() {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if !again {
		close(c.done)
	}
	for _, m := range c.members {
		m.server.Stop()
	}
	c.wg.Wait()
}

// Endpoints names the members, as a client's configuration wants them. They
// are IP literals, so that no resolver leaves the process; only DialOption
// reaches them.
func (c *Cluster) Endpoints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, m := range c.members {
		if !m.left {
			out = append(out, m.endpoint)
		}
	}
	return out
}

// Member returns the i-th member, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Members returns all members.
func (c *Cluster) Members() []*Member { return append([]*Member(nil), c.members...) }

// DialOption makes a gRPC client reach the endpoints of this cluster, whatever
// its resolver; other addresses are refused.
func (c *Cluster) DialOption() grpc.DialOption { return grpc.WithContextDialer(c.Dial) }

// Dial connects to an endpoint of the cluster.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	for _, m := range c.members {
		if m.endpoint == address {
			return m.dial(ctx)
		}
	}
	return nil, refused(fmt.Sprintf("%s, which is no member", address))
}

func refused(to string) error {
	return &net.OpError{Op: "dial", Net: "fake", Addr: wire.Addr(to), Err: syscall.ECONNREFUSED}
}

// later runs f after d, unless the cluster is closed before.
func (c *Cluster) later(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.laterLocked(d, f)
}

func (c *Cluster) laterLocked(d time.Duration, f func()) {
	if c.closed {
		return
	}
	c.wg.Go(func() { // ends after d, or when done is closed
		if c.sleep(context.Background(), d) == nil {
			f()
		}
	})
}

// sleep waits for d, unless ctx or the cluster ends before.
func (c *Cluster) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return errStopped
	}
}
