package names_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

func dial(t *testing.T, cfg pawl.Config) *pawl.Client {
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	c, err := pawl.Dial(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func acquire(t *testing.T, c *pawl.Client, name string) *lock.Held {
	h, err := lock.New(c, name, lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	return h
}

// behind returns a proxy of each address, and endpoints that lead to them by name.
func behind(t *testing.T, addresses []string) (proxies []*faultproxy.Proxy, names, endpoints []string) {
	for i, address := range addresses {
		p, name := faultproxy.Start(t, address), nameOf(t, i)
		server.be(name, "")
		_, port, err := net.SplitHostPort(p.Addr())
		require.NoError(t, err)
		proxies, names, endpoints = append(proxies, p), append(names, name), append(endpoints, net.JoinHostPort(name, port))
	}
	return proxies, names, endpoints
}

// A connection is made again while its name is not resolved, or not to its address. The lock that is held is kept, the one
// that is waited for is granted, and the next one too.
//
// rule: C10
func TestConnectionsAreMadeAgainThoughTheResolverIsAtFault(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3).Members()
	for _, n := range []int{1, 3} {
		for cut, do := range map[string]func(*faultproxy.Proxy){"reset": (*faultproxy.Proxy).Reset, "mute": (*faultproxy.Proxy).Swallow} {
			for _, fault := range faults {
				t.Run(fmt.Sprint(fault, ", ", cut, ", ", n), func(t *testing.T) {
					t.Parallel()
					var addresses []string
					for _, m := range members[:n] {
						addresses = append(addresses, m.Addr())
					}
					proxies, names, endpoints := behind(t, addresses)
					c, other := dial(t, pawl.Config{Endpoints: endpoints}), dial(t, pawl.Config{Endpoints: addresses})
					for _, p := range proxies { // each name was resolved
						require.Eventually(t, func() bool { return p.Accepted() > 0 }, testscale.Hang, time.Millisecond)
					}
					held, before := acquire(t, c, t.Name()+" held"), acquire(t, other, t.Name()+" waited for")
					won := make(chan error, 1)
					go func() { // ends when the lock is granted
						h, err := lock.New(c, t.Name()+" waited for", lock.Options{}).Acquire(t.Context())
						if err == nil {
							err = h.Release(t.Context())
						}
						won <- err
					}()
					require.Eventually(t, func() bool {
						q, err := lock.New(other, t.Name()+" waited for", lock.Options{}).Queue(t.Context())
						return err == nil && len(q) == 2
					}, testscale.Hang, 10*time.Millisecond)
					for _, name := range names {
						server.be(name, fault)
					}
					for range 2 {
						for _, p := range proxies {
							do(p)
						}
						require.NoError(t, acquire(t, c, t.Name()+" next").Release(t.Context()))
					}
					require.NoError(t, before.Release(t.Context()))
					require.NoError(t, <-won)
					assert.NoError(t, held.Confirm(t.Context()))
					assert.NoError(t, held.Release(t.Context()))
				})
			}
		}
	}
}

// A fresh client waits for a resolver that is late, silent or failing, and says at once that a name does not exist. One that
// connects when it is first used waits for that too.
//
// rule: C10
func TestAFreshClientWaitsForTheResolver(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	final := map[string]string{
		"NXDOMAIN": "the resolver knows no such name", "empty": "the resolver knows no such name", "elsewhere": "nobody listens there",
	}
	for _, fault := range faults {
		for _, lazy := range []bool{false, true} {
			t.Run(fmt.Sprint(fault, ", lazy ", lazy), func(t *testing.T) {
				t.Parallel()
				_, names, endpoints := behind(t, []string{s.Addr()})
				asked := server.be(names[0], fault)
				ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
				defer cancel()
				if want := final[fault]; want != "" && !lazy {
					_, err := pawl.Dial(ctx, pawl.Config{Endpoints: endpoints})
					require.ErrorContains(t, err, want)
					return
				}
				go func() { // ends when the client has asked, as each does
					<-asked
					if fault != "2 s late" && fault != "4 s late" {
						server.be(names[0], "")
					}
				}()
				c, err := pawl.Dial(ctx, pawl.Config{Endpoints: endpoints, Lazy: lazy})
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, acquire(t, c, t.Name()).Release(t.Context()))
			})
		}
	}
}
