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

// connect dials the addresses, and returns the first connection that is made. If it began with those that
// are known, it goes on with those that the resolver lists meanwhile.
func (a *addresses) connect(ctx context.Context) (net.Conn, error) {
	hosts, l, err := a.name.resolve(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the other attempts
	d := dialing{a, ctx, l, a.order(hosts), make(map[string]bool), make(map[string]time.Time), make(chan dialed)}
	return d.run()
}

// dialing is the making of one connection.
type dialing struct {
	a       *addresses
	ctx     context.Context
	asked   *lookup
	left    []string             // addresses not tried yet
	tried   map[string]bool      // all others
	began   map[string]time.Time // those under way
	results chan dialed
}

type dialed struct {
	address string
	conn    net.Conn
	err     error
}

func (d *dialing) run() (net.Conn, error) {
	next := time.NewTicker(addressStagger)
	defer next.Stop()
	answered := d.asked.done
	for d.next(); ; {
		select {
		case <-next.C:
			d.next()
		case <-answered:
			answered = nil
			d.listed()
		case got := <-d.results:
			delete(d.began, got.address)
			if got.err == nil {
				d.failed(addressStagger)
				d.connected(got)
				return got.conn, nil
			}
			d.a.failedAt(got.address)
			if d.next(); len(d.began) == 0 {
				return nil, d.why(got.err)
			}
		case <-d.ctx.Done():
			d.failed(0)
			return nil, d.why(d.ctx.Err())
		}
	}
}

// next begins to dial the next address, if there is one.
func (d *dialing) next() {
	if len(d.left) == 0 {
		return
	}
	address := d.left[0]
	d.left, d.tried[address], d.began[address] = d.left[1:], true, time.Now()
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

// listed looks at the answer of the resolver. If it lists an address that was not known, that is tried at
// once.
func (d *dialing) listed() {
	hosts, _ := d.asked.answer()
	if len(hosts) == 0 {
		return
	}
	all := d.a.order(hosts)
	isNew := func(address string) bool { return !d.tried[address] && !slices.Contains(d.left, address) }
	if !slices.ContainsFunc(all, isNew) {
		return
	}
	d.left = slices.DeleteFunc(all, func(address string) bool { return d.tried[address] })
	d.next()
}

// connected tells the name which of its hosts a connection was made to.
func (d *dialing) connected(to dialed) {
	host, _, err := net.SplitHostPort(to.address)
	if err != nil {
		return
	}
	unlisted := ""
	if !d.a.name.connected(d.asked, d.a.endpoint, host) {
		unlisted = to.address
	}
	d.a.mu.Lock()
	defer d.a.mu.Unlock()
	d.a.unlisted = unlisted
}

// why adds to err, of the last address that was tried, that the name was not resolved.
func (d *dialing) why(err error) error {
	switch hosts, failed := d.asked.answer(); {
	case failed != nil:
		return fmt.Errorf("%w (%v)", err, failed)
	case len(hosts) == 0:
		return fmt.Errorf("%w (%v)", err, d.a.name.late())
	}
	return err
}

// failed records as failed the addresses that have been connecting for at least long.
func (d *dialing) failed(long time.Duration) {
	for address, t := range d.began {
		if time.Since(t) >= long {
			d.a.failedAt(address)
		}
	}
}
