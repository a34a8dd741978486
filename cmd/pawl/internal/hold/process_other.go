//go:build !linux

package hold

import (
	"time"

	"golang.org/x/sys/unix"
)

// processOf is the process with number pid. It is not terminated once it is known to have ended.
func processOf(pid int) (*process, error) {
	if err := unix.Kill(pid, 0); err != nil && err != unix.EPERM {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // returns when that process ends
		defer close(ended)
		for unix.Kill(pid, 0) != unix.ESRCH {
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return &process{ended, func() {
		select {
		case <-ended:
		default:
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}}, nil
}
