package supervise

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sharedMemory is memory that the guardian and the holder share. The holder writes it, the guardian
// reads it. Unlike a message, it is never out of date when a process that was stopped
// continues.
type sharedMemory struct {
	running  atomic.Int64 // the number of the holder's run while a command runs, or what it started; negative once the guardian kills them; otherwise 0
	deadline atomic.Int64 // of the lock, by awake's clock; 0 if there is none
	grace    atomic.Int64 // from TERM to KILL
	remains  Remains      // of the holder; written before its first run, and read after its death
}

// run returns the number of the run under way, or 0.
func (m *sharedMemory) run() int64 {
	n := m.running.Load()
	return max(n, -n)
}

// finish records that the holder's run n has ended. It returns false if the guardian kills it, and the
// holder with it.
func (m *sharedMemory) finish(n int64) bool { return m.running.CompareAndSwap(n, 0) }

// strike records that the guardian kills run n, and the holder with it. It returns false if the run has
// ended. A holder that releases is not killed in the middle of that.
func (m *sharedMemory) strike(n int64) bool {
	return m.running.CompareAndSwap(n, -n) || m.running.Load() == -n
}

// newSharedMemory makes it, and the file by which another process maps it.
func newSharedMemory() (*sharedMemory, *os.File, error) {
	f, err := memoryFile()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Truncate(int64(unsafe.Sizeof(sharedMemory{}))); err != nil {
		f.Close()
		return nil, nil, err
	}
	m, err := mapSharedMemory(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return m, f, nil
}

// mapSharedMemory maps the sharedMemory in f. It stays mapped for as long as the process lives.
func mapSharedMemory(f *os.File) (*sharedMemory, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, int(unsafe.Sizeof(sharedMemory{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory shared with the guardian: %w", err)
	}
	return (*sharedMemory)(unsafe.Pointer(&mem[0])), nil
}

// extend writes the deadline of h. It reads the shared clock first, so that a preemption in
// between makes the written deadline earlier.
func (m *sharedMemory) extend(deadline time.Time) {
	now := awake()
	if deadline.IsZero() {
		return // it has ended, so the last deadline stays
	}
	m.deadline.Store(int64(now + time.Until(deadline)))
}

// until is the deadline as last extended. clock is the shared one. It reads the memory before and after
// the clock, and again if the deadline moved meanwhile, because a process that was stopped in
// between would otherwise compare an old deadline with a late clock.
func (m *sharedMemory) until(clock func() time.Duration) time.Time {
	for {
		at, deadline := time.Now(), m.deadline.Load()
		now := clock()
		if m.deadline.Load() == deadline {
			return at.Add(time.Duration(deadline) - now)
		}
	}
}

// awake reads a clock that is the same in all processes, and that runs during suspend if the
// system has such a clock.
func awake() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		panic(fmt.Sprintf("supervise: the system has no monotonic clock: %v", err))
	}
	return time.Duration(ts.Nano())
}
