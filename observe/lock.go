package observe

import (
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// An Acquisition identifies the acquisition of a lock, or the campaign and its term, of an event.
type Acquisition struct {
	ID    int64         // the same in all events of one acquisition, and unique in this process
	Name  string        // as given to lock.New or elect.New; of several names at once, the first
	Names []string      // of several names at once, all of them; otherwise nil
	Key   string        // in etcd, whole; "" if none was written
	Token fencing.Token // 0 if no key is known to have been written, or no slot of a semaphore is held yet
	Lease int64         // of the session
	Mode  Mode          // the mode; of several names, shared if all are
	Slot  int           // of a semaphore, once one is held; else -1
}

// A Mode is the mode in which a name is held, or acquired.
type Mode string

const (
	Exclusive Mode = "exclusive" // exclusively, as by a lock or a candidate
	Shared    Mode = "shared"    // together with other shared holders
	Semaphore Mode = "semaphore" // a slot of a semaphore
)

// How is the way in which a lock or an election was won.
type How string

const (
	Free      How = "free"      // nobody else held or waited, or, of a semaphore, nobody waited and a slot was free
	Granted   How = "granted"   // by the release of the holder before
	Confirmed How = "confirmed" // by a read of the cluster after the predecessor's key, or that of a slot, was deleted
	Resumed   How = "resumed"   // taken over with its session from another process
)

// LockEnqueued reports that the key is in the queue.
type LockEnqueued struct {
	Acquisition
	// Ahead is how many were ahead then. Other shared ones are not ahead of a shared one. It is 0 if the
	// lock is held, or if this is a semaphore's only waiter, and -1 if not known.
	Ahead int
}

// LockAcquired reports that the lock is held.
type LockAcquired struct {
	Acquisition
	How  How
	Wait time.Duration // since the call
}

// LockGaveUp reports that the call returned an error and holds nothing. It may never have been
// enqueued.
type LockGaveUp struct {
	Acquisition
	Wait time.Duration // since the call
	Err  error         // matches what the call's error matches
}

// LockReleased reports that the lock was released.
type LockReleased struct {
	Acquisition
	Held    time.Duration
	Pending error // why a release that continues in the background is not confirmed yet
}

// LockLost reports that the lock is no longer held, and was not released.
type LockLost struct {
	Acquisition
	Held time.Duration
	Err  error // matches lock.ErrLost and one cause
}

// Progressed reports that a hold with a Stall, of a lock or of a term, begins to count the time without
// progress, now, because it was acquired, or its work began, or Progress was called. It comes at most
// ten times in a Stall.
type Progressed struct {
	Acquisition
	Election bool
	Stall    time.Duration // after which the hold is lost, unless there is progress; 0 if the time does not count any more, because no work runs
}

// JobRan reports that lock.Mutex.Every has called its function. LockReleased, or LockLost, comes
// before it.
type JobRan struct {
	Name    string
	At      time.Time     // the time of the schedule
	Late    time.Duration // from At to the call
	Took    time.Duration // the function
	Skipped int           // how many times before At nobody has run, and nobody will
	Err     error         // why the run is not recorded; nil if it is
}
