package hold

import "golang.org/x/sys/unix"

// ended returns a channel that is closed when the process pid has ended.
func ended(pid int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	go func() { // ends with that process, or with this one
		defer unix.Close(fd)
		defer close(over)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && err != unix.EINTR {
				return
			}
		}
	}()
	return over, nil
}
