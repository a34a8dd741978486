package supervise

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page is memory that the guardian and the holder share. The holder writes it, the
// guardian reads it. Unlike a message, what it says is never old when a process that
// was stopped goes on.
type page struct {
	running  atomic.Int64 // not 0: a command runs, or what it started, as the holder's run of that number
	deadline atomic.Int64 // of the lock, by awake's clock; 0: none
	grace    atomic.Int64 // from TERM to KILL
}

// newPage makes a page, and the file by which another process maps it.
func newPage() (*page, *os.File, error) {
	f, err := pageFile()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Truncate(int64(unsafe.Sizeof(page{}))); err != nil {
		f.Close()
		return nil, nil, err
	}
	p, err := mapPage(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return p, f, nil
}

// mapPage maps the page in f. It stays mapped for as long as the process lives.
func mapPage(f *os.File) (*page, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, int(unsafe.Sizeof(page{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the page shared with the guardian: %w", err)
	}
	return (*page)(unsafe.Pointer(&mem[0])), nil
}

// extend writes the deadline of h. The clock of the page is read first, so that a
// preemption in between makes the written deadline earlier.
func (p *page) extend(deadline time.Time) {
	now := awake()
	if deadline.IsZero() {
		return // it is over: the last one stands
	}
	p.deadline.Store(int64(now + time.Until(deadline)))
}

// until is the deadline as last extended. clock is the page's. A process that is stopped
// between a look at the page and one at the clock would find an old deadline passed.
func (p *page) until(clock func() time.Duration) time.Time {
	for {
		at, deadline := time.Now(), p.deadline.Load()
		now := clock()
		if p.deadline.Load() == deadline {
			return at.Add(time.Duration(deadline) - now)
		}
	}
}

// awake reads a clock that runs during suspend where the system has one, and that is
// the same in all processes.
func awake() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		panic(fmt.Sprintf("supervise: the system has no monotonic clock: %v", err))
	}
	return time.Duration(ts.Nano())
}
