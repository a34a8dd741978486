//go:build unix

package loopback

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Shared reports that a server that listens on a reserved port must request SO_REUSEPORT, because
// the reservation holds a socket of it.
const Shared = true

// Reserve takes a free port by binding a socket to it that never listens. Nobody who wants any port
// gets this one. A listener shares it and gets all connections.
func Reserve() (*Port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	p := &Port{fd: fd}
	if err := p.bind(); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

func (p *Port) bind() error {
	if err := share(p.fd); err != nil {
		return err
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(p.fd)
	if err != nil {
		return err
	}
	p.number = name.(*unix.SockaddrInet4).Port
	return nil
}

func share(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// Release gives the port up. It must be called once.
func (p *Port) Release() { _ = unix.Close(p.fd) }

// Listen listens on the port.
func (p *Port) Listen() (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = share(int(fd)) }); e != nil {
			return e
		}
		return err
	}}
	return lc.Listen(context.Background(), "tcp", p.String())
}
