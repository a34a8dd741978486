package supervise

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page is memory that the guardian and the holder share. The holder writes it, the guardian
// reads it. Unlike a message, it is never out of date when a process that was stopped
// continues.
type page struct {
	running  atomic.Int64 // the number of the holder's run while a command runs, or what it started; negative once the guardian kills them; otherwise 0
	deadline atomic.Int64 // of the lock, by awake's clock; 0 if there is none
	grace    atomic.Int64 // from TERM to KILL
	remains  Remains      // of the holder; written before its first run, and read after its death
}

// run returns the number of the run under way, or 0.
func (p *page) run() int64 {
	n := p.running.Load()
	return max(n, -n)
}

// finish records that the holder's run n has ended. It returns false if the guardian kills it, and the
// holder with it.
func (p *page) finish(n int64) bool { return p.running.CompareAndSwap(n, 0) }

// strike records that the guardian kills run n, and the holder with it. It returns false if the run has
// ended. A holder that releases is not killed in the middle of that.
func (p *page) strike(n int64) bool {
	return p.running.CompareAndSwap(n, -n) || p.running.Load() == -n
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

// extend writes the deadline of h. It reads the page's clock first, so that a preemption in
// between makes the written deadline earlier.
func (p *page) extend(deadline time.Time) {
	now := awake()
	if deadline.IsZero() {
		return // it has ended, so the last deadline stays
	}
	p.deadline.Store(int64(now + time.Until(deadline)))
}

// until is the deadline as last extended. clock is the page's. It reads the page before and after
// the clock, and again if the deadline moved meanwhile, because a process that was stopped in
// between would otherwise compare an old deadline with a late clock.
func (p *page) until(clock func() time.Duration) time.Time {
	for {
		at, deadline := time.Now(), p.deadline.Load()
		now := clock()
		if p.deadline.Load() == deadline {
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
