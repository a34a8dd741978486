//go:build !linux

package hold

import (
	"time"

	"golang.org/x/sys/unix"
)

// process is a process for which a lock is held.
type process struct {
	ended <-chan struct{} // closed when it has ended
	pid   int
}

// processOf is the process with number pid.
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
	return &process{ended, pid}, nil
}

// terminate sends it TERM, unless it is known to have ended.
func (p *process) terminate() {
	select {
	case <-p.ended:
	default:
		_ = unix.Kill(p.pid, unix.SIGTERM)
	}
}
