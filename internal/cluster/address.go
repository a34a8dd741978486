package cluster

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// addresses dials a member by name. The name may have several addresses, such as a balancer's, or those
// of the members behind a headless service, and any of them may not serve. Each is tried; those that
// failed most recently are tried last. The address at which the member last answered is tried too if the
// name has lost it, after the others. Whoever answers there has to show its identity like everybody else.
type addresses struct {
	name     *name
	endpoint string // for people to read
	port     string
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	count    int                  // when they were last tried
	failed   map[string]time.Time // when each last failed
	served   string               // that of the last connection on which a request was answered
	unlisted string               // that of the last connection, if the resolver's answer did not list it
}

// addressesOf returns nil for a socket. An IP literal is a name with one address, itself.
func addressesOf(ep endpoint, c *Cluster) *addresses {
	if strings.HasPrefix(ep.target, "unix:") {
		return nil
	}
	host, port, _ := net.SplitHostPort(ep.name)
	a := &addresses{name: c.nameOf(host), endpoint: ep.name, port: port, dial: c.cfg.dial, failed: make(map[string]time.Time)}
	if a.dial == nil {
		a.dial = new(net.Dialer).DialContext
	}
	return a
}

// addressOf returns the address of the other side of conn, or "". A program's own dialer may return a
// connection that has none.
func addressOf(conn net.Conn) string {
	if conn == nil || conn.RemoteAddr() == nil {
		return ""
	}
	return conn.RemoteAddr().String()
}

// fail records that an address does not serve.
func (a *addresses) fail(conn net.Conn) {
	if address := addressOf(conn); a != nil && address != "" {
		a.failedAt(address)
	}
}

func (a *addresses) failedAt(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[address] = time.Now()
}

// serve records that an address serves.
func (a *addresses) serve(conn net.Conn) {
	if address := addressOf(conn); a != nil && address != "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.served = address
	}
}

// forget drops the address of conn, at which another cluster answers, if the resolver's answer did not
// list it, and reports whether it did not. The name is then resolved before anything else is tried.
func (a *addresses) forget(conn net.Conn) bool {
	address := addressOf(conn)
	if a == nil || address == "" {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if address != a.unlisted {
		return false
	}
	if a.served == address {
		a.served = ""
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		a.name.forget(host)
	}
	return true
}

// several reports whether there is more than one address.
func (a *addresses) several() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 1
}

// pending says that the name is being resolved, or "".
func (a *addresses) pending() string {
	if a == nil || !a.name.pending() {
		return ""
	}
	return "no answer yet: " + a.name.late().Error()
}

// order returns the addresses at hosts in the order in which they are tried.
func (a *addresses) order(hosts []string) []string {
	all := make([]string, len(hosts), len(hosts)+1)
	for i, h := range hosts {
		all[i] = net.JoinHostPort(h, a.port)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.served != "" && !slices.Contains(all, a.served) {
		all = append(all, a.served)
	}
	a.count = len(all)
	for address := range a.failed {
		if !slices.Contains(all, address) {
			delete(a.failed, address)
		}
	}
	slices.SortStableFunc(all, func(x, y string) int { return a.failed[x].Compare(a.failed[y]) })
	return all
}
