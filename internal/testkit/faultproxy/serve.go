package faultproxy

import "net"

// Serve forwards a connection that somebody else has accepted, as if it had come to Addr. It is for
// a listener that chooses the proxy for a connection by its client. It returns at once. While the
// proxy refuses, or is closed, the connection is reset.
func (p *Proxy) Serve(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		reset(client)
		return
	}
	c := newLink(client)
	p.conns[c] = struct{}{}
	p.accepted++
	p.wg.Go(func() { p.serve(c) }) // ends when either side ends, or the link is cut
}
