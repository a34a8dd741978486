//go:build !unix

package loopback

import "net"

// Shared reports that a server that listens on a reserved port must request SO_REUSEPORT, because
// the reservation holds a socket of it.
const Shared = false

// Reserve picks a port that was free a moment ago, because this system cannot keep one.
func Reserve() (*Port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return &Port{number: l.Addr().(*net.TCPAddr).Port, fd: -1}, nil
}

// Release gives the port up. It must be called once.
func (p *Port) Release() {}

// Listen listens on the port.
func (p *Port) Listen() (net.Listener, error) { return net.Listen("tcp", p.String()) }
