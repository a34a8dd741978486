package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Named is a cluster of three members behind one name, whose first address is that of Member(1).
type Named struct {
	*etcdfake.Cluster
	Resolver
	mu   sync.Mutex
	hole string // nobody answers a connection to this address
}

func NewNamed(c *etcdfake.Cluster) *Named { return &Named{Cluster: c} }

func (n *Named) lookup(ctx context.Context, host string) ([]string, error) {
	return n.answer(ctx, host, func() []string { return []string{"10.0.0.2", "10.0.0.1", "10.0.0.3"} })
}

func (n *Named) connect(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	hole := n.hole == address
	n.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return n.Dial(ctx, address)
}

// Fill has somebody answer there again.
func (n *Named) Fill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hole = ""
}

func (n *Named) Config() Config {
	return Config{Endpoints: []string{"etcd.example:2379"}, lookup: n.lookup, dial: n.connect}
}

// InUse is the member whose address c uses.
func (n *Named) InUse(c *Cluster) int {
	used := c.list()[0].line.Load().wire.Load().RemoteAddr().String()
	return slices.IndexFunc(n.Members(), func(m *etcdfake.Member) bool { return m.Endpoint() == used })
}

// NameFaults are the ways in which the address of a member stops serving.
var NameFaults = map[string]func(n *Named, i int){
	"refuses": func(n *Named, i int) { n.Member(i).Stop() },
	"is not there": func(n *Named, i int) {
		n.mu.Lock()
		n.hole = n.Member(i).Endpoint()
		n.mu.Unlock()
		n.Member(i).Reset()
	},
	"is frozen":                func(n *Named, i int) { n.Member(i).Halt() },
	"swallows what it is sent": func(n *Named, i int) { n.Member(i).Swallow() },
	"has no leader":            func(n *Named, i int) { n.Member(i).Isolate(); time.Sleep(2 * time.Second) },
}

func inName(t *testing.T, f func(t *testing.T, n *Named)) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNamed(etcdfake.New(etcdfake.Options{Members: 3}))
		t.Cleanup(n.Close)
		f(t, n)
	})
}

// All addresses of a name are tried, as members are.
// rule: C5
func TestANameServesWhileOneOfItsAddressesDoes(t *testing.T) {
	for _, c := range []struct {
		name           string
		fresh, running time.Duration // the longest time until the next request is answered
	}{
		{"refuses", 0, 200 * time.Millisecond},
		{"is not there", patience, time.Second},
		{"is frozen", patience, 600 * time.Millisecond},
		{"swallows what it is sent", 0, time.Second}, // new connections are served
		{"has no leader", time.Second, time.Second},
	} {
		fail := NameFaults[c.name]
		t.Run(c.name+", fresh client", func(t *testing.T) {
			inName(t, func(t *testing.T, n *Named) {
				fail(n, 1)
				start := time.Now()
				cl, err := Dial(t.Context(), n.Config())
				require.NoError(t, err)
				t.Cleanup(func() { _ = cl.Close() })
				_, err = cl.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), c.fresh)
			})
		})
		for resolver, later := range map[string]time.Duration{"well": 0, "SERVFAIL": 0, "empty": 0, "silent": lookupPatience, "4 s late": lookupPatience} {
			t.Run(c.name+", running client, resolver "+resolver, func(t *testing.T) {
				inName(t, func(t *testing.T, n *Named) {
					cl, err := Dial(t.Context(), n.Config())
					require.NoError(t, err)
					t.Cleanup(func() { _ = cl.Close() })
					n.Resolve(resolver)
					for range 3 { // the address fails, comes back, and fails again
						fail(n, 1)
						start := time.Now()
						_, err = cl.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
						require.NoError(t, err)
						assert.LessOrEqual(t, time.Since(start), c.running+later)
						n.Heal()
						time.Sleep(time.Minute)
					}
				})
			})
		}
	}
}

// The address that serves is found, whatever the order of those that fail.
// rule: C5
func TestAnAddressThatServesIsFoundWhereverItStands(t *testing.T) {
	for serves := range 3 {
		t.Run(fmt.Sprint(serves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"}
				c, err := newCluster(Config{
					Endpoints: []string{"etcd.example:2379"},
					lookup: func(context.Context, string) ([]string, error) {
						return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
					},
					dial: func(ctx context.Context, _, address string) (net.Conn, error) {
						if slices.Index(all, address) != serves {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						here, there := net.Pipe()
						go func() { // ends when it is read
							_, _ = there.Write([]byte("welcome"))
							_ = there.Close()
						}()
						return here, nil
					},
				})
				require.NoError(t, err)
				defer c.Close()
				a := c.list()[0].addresses
				start := time.Now()
				conn, err := a.connect(t.Context(), patience)
				require.NoError(t, err)
				heard(t, conn)
				assert.Equal(t, time.Duration(serves)*patience, time.Since(start))
				start = time.Now()
				conn, err = a.connect(t.Context(), patience)
				require.NoError(t, err)
				heard(t, conn)
				assert.Zero(t, time.Since(start), "those that failed come last")
			})
		})
	}
}

// What is far away speaks after two round trips, so others are not dialed before three.
// rule: C5
func TestAnAddressFarAwayIsGivenThreeRoundTrips(t *testing.T) {
	inName(t, func(t *testing.T, n *Named) {
		c, err := Dial(t.Context(), n.Config())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		m := c.list()[0]
		m.trip.Store(int64(400 * time.Millisecond))
		n.Member(1).BlackHole()
		start := time.Now()
		conn, err := m.connect(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		assert.Equal(t, 1200*time.Millisecond, time.Since(start))
	})
}

// heard waits until conn says something, and closes it.
func heard(t *testing.T, conn net.Conn) {
	t.Helper()
	said := make([]byte, 100)
	n, err := conn.Read(said)
	require.NoError(t, err)
	require.Equal(t, "welcome", string(said[:n]))
	require.NoError(t, conn.Close())
}

// An address that takes connections and says nothing, as that of a frozen member, costs no more than one
// that takes none.
// rule: C5
func TestSilentAddressesCostAFreshClientAStepEach(t *testing.T) {
	inName(t, func(t *testing.T, n *Named) {
		n.Member(1).BlackHole()
		n.Member(0).BlackHole()
		start := time.Now()
		c, err := Dial(t.Context(), n.Config())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		assert.Equal(t, 2*patience, time.Since(start))
		assert.Equal(t, 2, n.InUse(c))
	})
}

func TestAnAddressIsItsOnlyAddress(t *testing.T) {
	c, err := newCluster(Config{
		Endpoints: []string{"10.0.0.1:2379", "[::1]:2379", "[fe80::1%eth0]:2379", "unix:///a"},
		lookup:    func(context.Context, string) ([]string, error) { panic("an address is not looked up") },
		dial:      func(_ context.Context, _, address string) (net.Conn, error) { return nil, errors.New(address) },
	})
	require.NoError(t, err)
	defer c.Close()
	for _, m := range c.list()[:3] {
		_, err := m.addresses.connect(t.Context(), patience)
		assert.EqualError(t, err, m.Endpoint())
	}
	assert.Nil(t, c.list()[3].addresses)
}

// rule: C5
func TestANameThatCannotBeResolvedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Dial(t.Context(), Config{Endpoints: []string{"etcd.example:2379"}, lookup: func(context.Context, string) ([]string, error) {
			return nil, errors.New("no such host")
		}})
		require.ErrorContains(t, err, "no such host")
	})
}
