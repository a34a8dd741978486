package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// connect dials the addresses, and returns as soon as one of them takes a connection. That one counts when
// it has said something; until then the others are tried too, one after each step (see contest). If connect
// began with the addresses that are known, it goes on with those that the resolver lists meanwhile.
func (a *addresses) connect(ctx context.Context, step time.Duration) (net.Conn, error) {
	hosts, l, err := a.name.resolve(ctx)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(a.name.c.life)
	c := &contest{done: make(chan struct{}), end: end}
	d := &dialing{a, life, step, c, l, a.order(hosts), make(map[string]bool), make(map[string]time.Time), make(chan dialed)}
	made := make(chan struct{})
	if !a.name.c.Go(func() { d.run(made) }) { // ends when c is decided or closed, or with the Cluster
		end(nil)
		return nil, ErrClosed
	}
	select {
	case <-made:
		return c, nil
	case <-c.done:
	case <-ctx.Done():
		end(ctx.Err())
		<-c.done
	}
	if c.won.Load() != nil {
		return c, nil
	}
	return nil, c.err
}

// dialing is the making of one connection.
type dialing struct {
	a       *addresses
	ctx     context.Context // ends when c is decided or closed
	step    time.Duration   // how long an address may take before the next one is tried too
	c       *contest
	asked   *lookup
	left    []string             // addresses not tried yet
	tried   map[string]bool      // all others
	began   map[string]time.Time // those under way
	results chan dialed
}

// dialed is what became of an attempt: it failed, it has a connection, or that has said something.
type dialed struct {
	address string
	conn    net.Conn
	said    []byte
	err     error
}

// run makes the attempts until c is decided. It closes made when there is a connection.
func (d *dialing) run(made chan<- struct{}) {
	next := time.NewTicker(d.step)
	defer next.Stop()
	answered, taken := d.asked.done, false
	for d.next(); ; {
		select {
		case <-next.C:
			d.next()
		case <-answered:
			answered = nil
			d.listed()
		case got := <-d.results:
			switch {
			case got.err != nil:
				delete(d.began, got.address)
				d.a.failedAt(got.address)
				if d.next(); len(d.began) == 0 {
					if !taken {
						got.err = d.why(got.err)
					}
					d.c.decide(nil, nil, got.err)
					return
				}
			case got.said == nil:
				if !taken {
					taken = true
					close(made)
				}
			default:
				delete(d.began, got.address)
				d.failed(d.step)
				d.connected(got.address)
				d.c.decide(got.conn, got.said, nil)
				return
			}
		case <-d.ctx.Done():
			d.failed(0)
			d.c.decide(nil, nil, d.why(context.Cause(d.ctx)))
			return
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
	d.a.name.c.Go(func() { d.dial(address) }) // ends with ctx, which has ended if it does not begin
}

// dial makes a connection to an address, and waits until that says something.
func (d *dialing) dial(address string) {
	conn, err := d.a.dial(d.ctx, "tcp", address)
	if err == nil {
		limitSilence(conn)
		if !d.c.join(conn) {
			return
		}
		d.report(dialed{address: address})
		said, n := make([]byte, 1<<10), 0
		for n == 0 && err == nil {
			n, err = conn.Read(said)
		}
		if n > 0 {
			d.report(dialed{address: address, conn: conn, said: said[:n]})
			return
		}
	}
	d.report(dialed{address: address, err: err})
}

func (d *dialing) report(r dialed) {
	select {
	case d.results <- r:
	case <-d.ctx.Done():
	}
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
func (d *dialing) connected(address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return
	}
	unlisted := ""
	if !d.a.name.connected(d.asked, d.a.endpoint, host) {
		unlisted = address
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

// failed records as failed the addresses that have been under way for at least long.
func (d *dialing) failed(long time.Duration) {
	for address, t := range d.began {
		if time.Since(t) >= long {
			d.a.failedAt(address)
		}
	}
}
