package loopback

import (
	"net"
	"strconv"
)

// Port is a port of 127.0.0.1, ours until Release.
type Port struct {
	number int
	fd     int // the socket that keeps it, or -1
}

// Number is the port's number.
func (p *Port) Number() int { return p.number }

// String is host and port.
func (p *Port) String() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number))
}
