package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Holding is what a command runs under, a lock or a term.
type Holding interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time

	// Keep keeps it from everybody else, whatever ends it, until done is called, or until the lease
	// expires.
	Keep() (done func())

	// Remains are what the death of this process would leave of it.
	Remains() Remains

	// Proof is a file that is locked for as long as some process has it, which shows others that this one,
	// its guardian or the command lives. It is nil if there is none.
	Proof() *os.File
}

// Remains are a lease and the revisions of its session key, of the cluster with this ID.
type Remains struct {
	Cluster     uint64
	Lease       int64
	Create, Mod int64
}

// leastReserve is the least time for a KILL to take effect.
const leastReserve = 100 * time.Millisecond

// reserveOf is how long before the deadline KILL is sent.
func reserveOf(grace time.Duration) time.Duration { return max(leastReserve, grace/4) }

// glance is how often the clock is compared with the deadline, so that a suspend,
// which stops timers, is noticed soon after.
const glance = 500 * time.Millisecond

// target is what the watchman ends.
type target interface {
	signal(sig unix.Signal)
	kill()
}

// ErrRunningOut is why a command is ended before its lock ends.
var ErrRunningOut = errors.New("the lock is running out: renewals are not confirmed")

// watchman decides when a command has to end, and ends it.
type watchman struct {
	h interface {
		Err() error
		Deadline() time.Time
	}
	grace    time.Duration // from TERM to KILL
	notice   time.Duration // how long before the deadline it begins, if only renewals are missing
	reserve  time.Duration // how long before the deadline KILL is sent at the latest
	deadline time.Time     // the last one known
	cause    error         // why the command has to end; nil if it has not
	killAt   time.Time     // once it has
	kills    int           // how often it was killed
}

// Notice is how long before the end of what it runs under a command is ended.
func Notice(grace time.Duration) time.Duration { return max(grace, reserveOf(grace)) }

// newWatchman is the holder's.
func newWatchman(h Holding, grace time.Duration) *watchman {
	return &watchman{h: h, grace: grace, notice: Notice(grace), reserve: reserveOf(grace), deadline: h.Deadline()}
}

// check does what is due now, and returns how long until the next check.
func (w *watchman) check(t target) time.Duration {
	if w.cause == nil {
		if left := w.left(); left > 0 {
			return min(left, glance)
		}
	}
	now := time.Now()
	if w.killAt.IsZero() {
		w.begin(now, t)
	}
	if wait := w.killAt.Sub(now); wait > 0 {
		return min(wait, glance)
	}
	t.kill()
	w.kills++
	// Once more, until nothing is left; what runs as another user cannot be killed.
	return min(10*time.Millisecond<<min(w.kills, 7), time.Second)
}

// end makes the command end for cause, unless it has to end already.
func (w *watchman) end(cause error) {
	if w.cause == nil {
		w.cause = cause
	}
}

// begin sends TERM. A stopped process receives it only when it continues.
func (w *watchman) begin(now time.Time, t target) {
	t.signal(unix.SIGTERM)
	t.signal(unix.SIGCONT)
	w.killAt = now.Add(w.grace)
	if last := w.deadline.Add(-w.reserve); last.Before(w.killAt) {
		w.killAt = last
	}
}

// left is how long the command may run until the next check. It sets cause if no time is left.
func (w *watchman) left() time.Duration {
	err, deadline := w.h.Err(), w.h.Deadline()
	if !deadline.IsZero() {
		w.deadline = deadline
	}
	if err == nil && !deadline.IsZero() {
		if left := time.Until(deadline) - w.notice; left > 0 { // the clock is read last: this process may have been stopped
			return left
		}
		err = ErrRunningOut
	}
	if err == nil {
		err = w.h.Err()
	}
	w.cause = err
	return 0
}
