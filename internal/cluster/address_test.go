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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// named is a cluster of three members behind one name, whose first address is that of Member(1).
type named struct {
	*etcdfake.Cluster
	mu   sync.Mutex
	hole bool // nobody answers a connection to the first address
}

func (n *named) lookup(context.Context, string) ([]string, error) {
	return []string{"10.0.0.2", "10.0.0.1", "10.0.0.3"}, nil
}

func (n *named) connect(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	hole := n.hole && address == "10.0.0.2:2379"
	n.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return n.Dial(ctx, address)
}

func (n *named) config() Config {
	return Config{Endpoints: []string{"etcd.example:2379"}, lookup: n.lookup, dial: n.connect}
}

func inName(t *testing.T, f func(t *testing.T, n *named)) {
	synctest.Test(t, func(t *testing.T) {
		n := &named{Cluster: etcdfake.New(etcdfake.Options{Members: 3})}
		t.Cleanup(n.Close)
		f(t, n)
	})
}

// All addresses of a name are tried, as members are.
func TestANameServesWhileOneOfItsAddressesDoes(t *testing.T) {
	for _, c := range []struct {
		name           string
		fail           func(n *named)
		fresh, running time.Duration // until the next request is answered, at most
	}{
		{"refuses", func(n *named) { n.Member(1).Stop() }, 0, 200 * time.Millisecond},
		{"is not there", func(n *named) {
			n.mu.Lock()
			n.hole = true
			n.mu.Unlock()
			n.Member(1).Reset()
		}, addressStagger, time.Second},
		{"is frozen", func(n *named) { n.Member(1).Halt() }, 600 * time.Millisecond, 600 * time.Millisecond},
		{"has no leader", func(n *named) { n.Member(1).Isolate(); time.Sleep(2 * time.Second) }, time.Second, time.Second},
	} {
		t.Run(c.name+", fresh client", func(t *testing.T) {
			inName(t, func(t *testing.T, n *named) {
				c.fail(n)
				start := time.Now()
				cl, err := Dial(t.Context(), n.config())
				require.NoError(t, err)
				t.Cleanup(func() { _ = cl.Close() })
				_, err = cl.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), c.fresh)
			})
		})
		t.Run(c.name+", running client", func(t *testing.T) {
			inName(t, func(t *testing.T, n *named) {
				cl, err := Dial(t.Context(), n.config())
				require.NoError(t, err)
				t.Cleanup(func() { _ = cl.Close() })
				for range 3 { // it is reached, comes back, and is lost again
					c.fail(n)
					start := time.Now()
					_, err = cl.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
					require.NoError(t, err)
					assert.LessOrEqual(t, time.Since(start), c.running)
					n.Heal()
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// No order of failing addresses keeps the one that serves from being found.
func TestAnAddressThatServesIsFoundWhereverItStands(t *testing.T) {
	for serves := range 3 {
		t.Run(fmt.Sprint(serves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"}
				a := addressesOf(endpoint{name: "etcd.example:2379"}, &Config{
					lookup: func(context.Context, string) ([]string, error) {
						return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
					},
					dial: func(ctx context.Context, _, address string) (net.Conn, error) {
						if slices.Index(all, address) != serves {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						here, there := net.Pipe()
						_ = there.Close()
						return here, nil
					},
				})
				start := time.Now()
				conn, err := a.connect(t.Context(), "")
				require.NoError(t, err)
				_ = conn.Close()
				assert.Equal(t, time.Duration(serves)*addressStagger, time.Since(start))
				start = time.Now()
				conn, err = a.connect(t.Context(), "")
				require.NoError(t, err)
				_ = conn.Close()
				assert.Zero(t, time.Since(start), "those that failed come last")
			})
		})
	}
}

func TestOnlyANameIsResolved(t *testing.T) {
	for _, text := range []string{"10.0.0.1:2379", "[::1]:2379", "[fe80::1%eth0]:2379", "unix:///a"} {
		ep, err := parseEndpoint(text, false)
		require.NoError(t, err)
		assert.Nil(t, addressesOf(ep, &Config{}), text)
	}
}

func TestANameThatCannotBeResolvedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Dial(t.Context(), Config{Endpoints: []string{"etcd.example:2379"}, lookup: func(context.Context, string) ([]string, error) {
			return nil, errors.New("no such host")
		}})
		require.ErrorContains(t, err, "no such host")
	})
}
