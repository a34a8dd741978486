package hold

import "golang.org/x/sys/unix"

// processOf is the process with number pid. It never terminates a later process with that number.
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
	return &process{ended, func() { _ = unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0) }}, nil
}
