//go:build !linux

package peer

import (
	"errors"
	"net"
)

func credentials(*net.UnixConn) (uid uint32, pid int, err error) {
	return 0, 0, errors.New("pawld knows its peers on Linux alone")
}

// A Process is the process at the other end of a Unix socket.
type Process struct{}

func openProcess(*net.UnixConn) (*Process, error) { return nil, ErrNoPIDFD }

// Wait waits until the process has exited, or until Close.
func (*Process) Wait() (exited bool) { return false }

// Close may be called more than once.
func (*Process) Close() {}
