//go:build amd64 || arm64

package supervise

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel tells a signal's handler who sent it: a process, or the kernel itself, as for a terminal. Go's
// runtime does not pass that on. So a handler of a few instructions, recordSender, counts that before the
// runtime's handler runs.

const signals = 65 // one more than the highest number

// counts are how often each signal came from a process, and from the kernel. Replaced are the handlers
// before recordSender. Both are used by recordSender.
var (
	counts   [signals][2]uint32
	replaced [signals]uintptr
	recorder uintptr // the address of recordSender
)

// action is the kernel's struct sigaction.
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// recordSenders begins to record who sends sigs. The runtime catches them from its start, except for those
// that this process was started to ignore, which are left out. It returns false if the system does not
// allow that.
func recordSenders(sigs ...syscall.Signal) bool {
	for _, sig := range sigs {
		var a action
		if !sigaction(sig, nil, &a) {
			return false
		}
		if a.handler <= 1 || a.handler == recorder { // not caught; recorded already
			continue
		}
		replaced[sig] = a.handler
		a.handler = recorder
		if !sigaction(sig, &a, nil) {
			return false
		}
	}
	return true
}

func sigaction(sig syscall.Signal, set, old *action) bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(action{}.mask), 0, 0)
	return errno == 0
}

// sent returns how often sig came so far, from processes and from the kernel.
func sent(sig syscall.Signal) (byProcess, byKernel uint32) {
	return atomic.LoadUint32(&counts[sig][0]), atomic.LoadUint32(&counts[sig][1])
}
