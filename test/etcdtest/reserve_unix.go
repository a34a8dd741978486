//go:build unix

package etcdtest

import "golang.org/x/sys/unix"

// reserves tells that a reserved port stays reserved while the server listens
// on it, so that the server has to share it.
const reserves = true

// reserve takes a free loopback port by binding a socket to it that never
// listens. Others who want any port do not get this one; the server shares it,
// because both ask for SO_REUSEPORT, and gets all connections.
func reserve() (port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return port{}, err
	}
	unix.CloseOnExec(fd)
	p := port{fd: fd}
	if err := p.bind(); err != nil {
		p.release()
		return port{}, err
	}
	return p, nil
}

func (p *port) bind() error {
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
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

func (p *port) release() { _ = unix.Close(p.fd) }
