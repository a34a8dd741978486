//go:build !unix

package etcdtest

import "net"

const reserves = false

// reserve picks a loopback port that was free a moment ago: this system cannot
// keep it for us.
func reserve() (port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return port{}, err
	}
	defer l.Close()
	return port{number: l.Addr().(*net.TCPAddr).Port, fd: -1}, nil
}

func (p *port) release() {}
