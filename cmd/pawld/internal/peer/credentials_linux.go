package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// credentials are the user and the process at the other end, as they were when the connection was
// made.
func credentials(c *net.UnixConn) (uid uint32, pid int, err error) {
	var cred *unix.Ucred
	err = control(c, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return cred.Uid, int(cred.Pid), nil
}

// control calls f with the descriptor of c.
func control(c *net.UnixConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// A Process is the process at the other end of a Unix socket. It remains that process even if its
// number is used again.
type Process struct {
	pidfd *os.File
	wait  syscall.RawConn
}

func openProcess(c *net.UnixConn) (*Process, error) {
	var pidfd int
	err := control(c, func(fd int) (err error) {
		pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return nil, ErrNoPIDFD
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // by the version of Linux; newer ones return one that has exited
		return nil, ErrExited
	case err != nil:
		return nil, fmt.Errorf("the process at the other end of the socket: %w", err)
	}
	unix.CloseOnExec(pidfd)
	if err := unix.SetNonblock(pidfd, true); err != nil { // so that waiting for it takes no thread
		_ = unix.Close(pidfd)
		return nil, fmt.Errorf("the process at the other end of the socket: %w", err)
	}
	f := os.NewFile(uintptr(pidfd), "process")
	wait, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the process at the other end of the socket: %w", err)
	}
	p := &Process{f, wait}
	if exited(uintptr(pidfd)) {
		p.Close()
		return nil, ErrExited
	}
	return p, nil
}

func exited(pidfd uintptr) bool {
	ready := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, 0)
	return err == nil && n > 0
}

// Wait waits until the process has exited, or until Close.
func (p *Process) Wait() bool {
	return p.wait.Read(exited) == nil
}

// Close may be called more than once.
func (p *Process) Close() { _ = p.pidfd.Close() }
