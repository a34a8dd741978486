package hold

import "golang.org/x/sys/unix"

// process is a process for which a lock is held.
type process struct {
	ended <-chan struct{} // closed when it has ended
	fd    int
}

// processOf is the process with number pid.
func processOf(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // returns when that process ends
		defer close(ended)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && err != unix.EINTR {
				return
			}
		}
	}()
	return &process{ended, fd}, nil
}

// terminate sends it TERM, but never a later process with the same number.
func (p *process) terminate() { _ = unix.PidfdSendSignal(p.fd, unix.SIGTERM, nil, 0) }
