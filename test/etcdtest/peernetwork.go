package etcdtest

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// peerNetwork is the network between the members. Each advertises one of our addresses, and each
// connection to it passes the proxy of its two ends. The kernel shows which member opened it: see
// ownerOf.
type peerNetwork struct {
	wg sync.WaitGroup

	mu    sync.Mutex
	gates []*peerGate
	pairs map[pair]*faultproxy.Proxy
}

// pair is a direction between two members.
type pair struct{ from, to *Member }

// peerGate is the address that a member advertises to its peers.
type peerGate struct {
	member   *Member
	port     *loopback.Port
	listener net.Listener
}

func newPeerNetwork() *peerNetwork {
	return &peerNetwork{pairs: map[pair]*faultproxy.Proxy{}}
}

// open opens the gate of a member.
func (n *peerNetwork) open(m *Member) (*peerGate, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return nil, err
	}
	l, err := port.Listen()
	if err != nil {
		port.Release()
		return nil, err
	}
	g := &peerGate{m, port, l}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gates = append(n.gates, g)
	n.wg.Go(func() { n.accept(g) }) // ends when the listener is closed
	return g, nil
}

// accept serves each connection in a separate goroutine. Finding its owner takes as long as the
// kernel and a busy machine make it, and others must not wait for that.
func (n *peerNetwork) accept(g *peerGate) {
	for {
		conn, err := g.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // no file is free, for a moment
			continue
		}
		n.wg.Go(func() { n.serve(g, conn) })
	}
}

func (n *peerNetwork) serve(g *peerGate, conn net.Conn) {
	from := n.ownerOf(conn)
	if from == nil {
		_ = conn.Close() // its process is gone already
		return
	}
	p, err := n.between(from, g.member)
	if err != nil {
		_ = conn.Close()
		return
	}
	p.Serve(conn)
}

// ownerOf is the member whose process has opened a connection to a gate.
func (n *peerNetwork) ownerOf(conn net.Conn) *Member {
	inode, ok := socketOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	if !ok {
		return nil
	}
	n.mu.Lock()
	gates := append([]*peerGate(nil), n.gates...)
	n.mu.Unlock()
	for _, g := range gates {
		if pid := g.member.pid(); pid != 0 && holds(pid, inode) {
			return g.member
		}
	}
	return nil
}

// between is the proxy of one direction of dialling between two members.
func (n *peerNetwork) between(from, to *Member) (*faultproxy.Proxy, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pairs[pair{from, to}]; p != nil {
		return p, nil
	}
	p, err := faultproxy.New(to.peer.String())
	if err == nil {
		n.pairs[pair{from, to}] = p
	}
	return p, err
}

// each calls f with every direction that m is an end of, and whether m is the
// one that dials.
func (n *peerNetwork) each(m *Member, all []*Member, f func(p *faultproxy.Proxy, dials bool)) {
	for _, other := range all {
		if other == m {
			continue
		}
		if p, err := n.between(m, other); err == nil {
			f(p, true)
		}
		if p, err := n.between(other, m); err == nil {
			f(p, false)
		}
	}
}

func (n *peerNetwork) close() {
	n.mu.Lock()
	gates, pairs := n.gates, n.pairs
	n.gates = nil
	n.mu.Unlock()
	for _, g := range gates {
		_ = g.listener.Close()
	}
	n.wg.Wait()
	for _, p := range pairs {
		p.Close()
	}
	for _, g := range gates {
		g.port.Release()
	}
}
