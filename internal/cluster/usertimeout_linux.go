package cluster

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence has the operating system end conn once what was sent on it has not been acknowledged for
// connectTotal. Nobody else ends a connection that owes nothing any more, because its callers gave up, and
// swallows what is sent on it. gRPC does the same, but only to what its dialer returns as a *net.TCPConn. It is
// no failure if it cannot be done.
func limitSilence(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok { // in tests
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(connectTotal/time.Millisecond))
		})
	}
}
