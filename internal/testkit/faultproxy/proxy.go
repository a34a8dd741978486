package faultproxy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// Proxy stands before one server. Its methods may be called from any goroutine.
type Proxy struct {
	target string
	at     place
	up     *gate // towards the server
	down   *gate // towards the clients
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	conns    map[*link]struct{}
	accepted int
	closed   bool
}

// place is where clients find the proxy.
type place interface {
	String() string
	Listen() (net.Listener, error)
	Release()
}

// socket is the path of a unix socket.
type socket string

func (s socket) String() string { return string(s) }

func (s socket) Listen() (net.Listener, error) {
	l, err := net.Listen("unix", string(s))
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(string(s), 0o777)
}

func (s socket) Release() {}

// Start starts a proxy before the server at target, host and port, that lasts
// until the end of the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	return lasting(t, p, err)
}

// StartAt is Start, but clients of any user find the server at the unix socket with the path at.
// target may be a unix socket, too.
func StartAt(t testing.TB, at, target string) *Proxy {
	t.Helper()
	p, err := start(socket(at), target)
	return lasting(t, p, err)
}

func lasting(t testing.TB, p *Proxy, err error) *Proxy {
	t.Helper()
	if err != nil {
		t.Fatalf("faultproxy: start: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// New starts a proxy before the server at target, host and port. It must be closed.
func New(target string) (*Proxy, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return start(port, target)
}

func start(at place, target string) (*Proxy, error) {
	p := &Proxy{target: target, at: at, up: newGate(), down: newGate(), conns: map[*link]struct{}{}}
	if err := p.listen(); err != nil {
		at.Release()
		return nil, err
	}
	return p, nil
}

// Addr is the host and port, or the socket, at which clients find the server behind the proxy.
func (p *Proxy) Addr() string { return p.at.String() }

// Accepted is how many connections clients have made so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close ends all connections and returns when every goroutine has ended. It
// can be called again.
func (p *Proxy) Close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.wg.Wait()
	if first {
		p.at.Release()
	}
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	l, err := p.at.Listen()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) }) // ends when l is closed
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.listener != l {
			p.mu.Unlock()
			reset(client)
			continue
		}
		c := newLink(client)
		p.conns[c] = struct{}{}
		p.accepted++
		p.wg.Go(func() { p.serve(c) }) // ends when either side ends, or the link is cut
		p.mu.Unlock()
	}
}

func (p *Proxy) serve(c *link) {
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	network := "tcp"
	if filepath.IsAbs(p.target) {
		network = "unix"
	}
	server, err := net.DialTimeout(network, p.target, 10*time.Second)
	if err != nil || !c.join(server) {
		c.cut(true)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.forward(c.client, server, p.up) })
	both.Go(func() { c.forward(server, c.client, p.down) })
	both.Wait()
	c.cut(false)
}
