//go:build !linux

package hold

import (
	"time"

	"golang.org/x/sys/unix"
)

// process is one that a lock is held for.
type process struct {
	over <-chan struct{} // closed when it has ended
	pid  int
}

// processOf is the process with that number.
func processOf(pid int) (*process, error) {
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
	return &process{over, pid}, nil
}

// terminate sends it TERM, unless it was seen to have ended.
func (p *process) terminate() {
	select {
	case <-p.over:
	default:
		_ = unix.Kill(p.pid, unix.SIGTERM)
	}
}
