//go:build !linux

package hold

import (
	"time"

	"golang.org/x/sys/unix"
)

// ended returns a channel that is closed when there is no process pid any more.
func ended(pid int) (<-chan struct{}, error) {
	if err := unix.Kill(pid, 0); err != nil && err != unix.EPERM {
		return nil, err
	}
	over := make(chan struct{})
	go func() { // ends with that process, or with this one
		defer close(over)
		for unix.Kill(pid, 0) != unix.ESRCH {
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return over, nil
}
