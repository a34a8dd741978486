package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// addressStagger is how long an address of a name may take to connect before the next one is tried too.
const addressStagger = 200 * time.Millisecond

// addresses dials a member by name. The name may have several addresses, such as a balancer's, or those
// of the members behind a headless service, and any of them may not serve. Each is tried; those that
// failed most recently are tried last.
type addresses struct {
	host, port string
	lookup     func(ctx context.Context, host string) ([]string, error)
	dial       func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	count  int                  // at the last lookup
	failed map[string]time.Time // when each last failed
}

// addressesOf returns nil for a socket. An IP literal is a name with one address, itself.
func addressesOf(ep endpoint, cfg *Config) *addresses {
	if strings.HasPrefix(ep.target, "unix:") {
		return nil
	}
	host, port, _ := net.SplitHostPort(ep.name)
	a := &addresses{host: host, port: port, lookup: cfg.lookup, dial: cfg.dial, failed: make(map[string]time.Time)}
	if a.lookup == nil {
		a.lookup = net.DefaultResolver.LookupHost
	}
	if a.dial == nil {
		a.dial = new(net.Dialer).DialContext
	}
	return a
}

// fail records that an address does not serve.
func (a *addresses) fail(conn net.Conn) {
	if a != nil && conn != nil {
		a.failedAt(conn.RemoteAddr().String())
	}
}

func (a *addresses) failedAt(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[address] = time.Now()
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

// resolve returns the name's addresses in the order in which they are tried.
func (a *addresses) resolve(ctx context.Context) ([]string, error) {
	hosts, err := a.lookup(ctx, a.host)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s has no address", a.host)
	}
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = net.JoinHostPort(h, a.port)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count = len(all)
	for address := range a.failed {
		if !slices.Contains(all, address) {
			delete(a.failed, address)
		}
	}
	slices.SortStableFunc(all, func(x, y string) int { return a.failed[x].Compare(a.failed[y]) })
	return all, nil
}

// dialing is the making of one connection.
type dialing struct {
	a       *addresses
	ctx     context.Context
	left    []string             // addresses not tried yet
	began   map[string]time.Time // those under way
	results chan dialed
}

type dialed struct {
	address string
	conn    net.Conn
	err     error
}

// connect dials the addresses, and returns the first connection that is made.
func (a *addresses) connect(ctx context.Context) (net.Conn, error) {
	all, err := a.resolve(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the other attempts
	d := dialing{a, ctx, all, make(map[string]time.Time), make(chan dialed)}
	next := time.NewTicker(addressStagger)
	defer next.Stop()
	for d.next(); ; {
		select {
		case <-next.C:
			d.next()
		case got := <-d.results:
			delete(d.began, got.address)
			if got.err == nil {
				d.failed(addressStagger)
				return got.conn, nil
			}
			a.failedAt(got.address)
			if d.next(); len(d.began) == 0 {
				return nil, got.err
			}
		case <-ctx.Done():
			d.failed(0)
			return nil, ctx.Err()
		}
	}
}

// next begins to dial the next address, if there is one.
func (d *dialing) next() {
	if len(d.left) == 0 {
		return
	}
	address := d.left[0]
	d.left, d.began[address] = d.left[1:], time.Now()
	go func() { // ends with ctx
		conn, err := d.a.dial(d.ctx, "tcp", address)
		select {
		case d.results <- dialed{address, conn, err}:
		case <-d.ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
}

// failed records as failed the addresses that have been connecting for at least long.
func (d *dialing) failed(long time.Duration) {
	for address, t := range d.began {
		if time.Since(t) >= long {
			d.a.failedAt(address)
		}
	}
}
