package supervise

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// fromTerminals are the signals that a terminal sends. It sends them to its foreground group, and HUP to
// the leader of its session too.
var fromTerminals = []syscall.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGHUP}

// senders tells signals that the terminal sent to the whole job from those that a process sent to this
// process. The zero senders is ready.
type senders struct {
	recorded bool
	known    map[syscall.Signal][2]uint32 // what was passed on, by sender
}

// record begins to find out who sends what the terminal may have sent.
func (s *senders) record() {
	s.recorded = recordSenders(fromTerminals...)
	s.known = make(map[syscall.Signal][2]uint32)
}

// of returns how often sig, which was received, came since the last call, to this process alone, and to
// the whole job. Where nothing is recorded, it counts as sent to the job if a terminal may have sent it.
func (s *senders) of(sig syscall.Signal) (alone, job int) {
	if !slices.Contains(fromTerminals, sig) {
		return 1, 0
	}
	if !s.recorded {
		if sig != unix.SIGHUP && inForeground() {
			return 0, 1
		}
		return 1, 0
	}
	byProcess, byKernel := sent(sig)
	last := s.known[sig]
	s.known[sig] = [2]uint32{byProcess, byKernel}
	alone, job = int(byProcess-last[0]), int(byKernel-last[1])
	if leader, err := unix.Getsid(0); sig == unix.SIGHUP && err == nil && leader == os.Getpid() {
		return alone + job, 0 // the terminal tells its session's leader alone that it is gone
	}
	return alone, job
}
