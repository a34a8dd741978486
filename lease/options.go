package lease

import (
	"fmt"
	"os"
	"time"

	"github.com/pawl-locks/pawl/internal/detached"
)

// The bounds of Options.TTL. etcd grants no shorter lease than one and a half elections, which is 2 s
// by default, and three renewals on two members need a second each. A longer lease would block a name
// for more than a day after a crash.
const (
	DefaultTTL = 15 * time.Second
	MinTTL     = 3 * time.Second
	MaxTTL     = 24 * time.Hour
)

// Options are the options of a session. The zero value is the default.
type Options struct {
	// TTL is how long the server keeps the lease without a renewal. It is 3 s to 24 h, rounded up to
	// seconds; 0 means 15 s. The server may grant more. Session.TTL returns what it granted.
	//
	// It is also how long what a crashed process held stays taken. A session renews four times in a TTL,
	// so a long one outlives long faults, and a reboot if the next process resumes it (Resume), and
	// learns from its renewals only after a quarter of the TTL that the lease was revoked; the deletion
	// of its keys it learns at once. Do not use more than 5 minutes where etcd's alpha feature of lease
	// checkpoints is on: with it, a lease can end sooner than a renewal's answer said.
	TTL time.Duration
	// Margin is how much earlier this process stops trusting the lease than the server could end it. 0
	// means a sixth of the granted TTL, which covers two clocks that NTP slews at their limits in
	// opposite directions. Less than that, or more than a third, is refused.
	Margin time.Duration
	// Owner is written into the session key, and into the keys of several names that are acquired
	// together, for people to read. "" means host:pid.
	Owner string
	// LockDelay keeps a lock's key for at least that long after a hold that ended without Release.
	// Until then nobody else can acquire the lock, so that writes in flight can land in storage that
	// checks no token. 0 means no delay. It covers a process that crashes, is cut off or closes the
	// session while it holds, lock.Options.MaxHold, and the other locks of a set that lost one. It
	// counts from the end of the hold in this process, and a later Release or Close does not shorten
	// it. There is no delay after a Release, after an operator deleted the key or revoked the lease, or
	// after a holder that is not pawl's.
	//
	// The TTL of the lease is longer than TTL by 1.2 times LockDelay. This does not change the
	// session's validity, which depends on TTL and Margin. So after a crash everything on the process's
	// lease, including its waiters' keys, is deleted that much later. TTL and 1.2 times LockDelay
	// together are at most 24 h. A session with Resume has the LockDelay of its lease.
	LockDelay time.Duration
	// Resume takes over the lease of a session that was detached, with the lease's TTL. The zero Handle
	// means a new lease. A takeover that fails leaves the lease, and what is held on it, to expire.
	// Until then this process can try again with the same Handle.
	Resume Handle
}

// Check reports what is wrong with o, naming the field and its bounds.
func (o Options) Check() error {
	if o.TTL != 0 && (o.TTL < MinTTL || o.TTL > MaxTTL) {
		return fmt.Errorf("lease: Options.TTL is %v, want 0 or %v to %v", o.TTL, MinTTL, MaxTTL)
	}
	ttl := o.WithDefaults().TTL
	if h, err := detached.Parse(o.Resume.text); err == nil { // an error means the zero Handle
		ttl = h.TTL
	}
	if o.Margin != 0 && (o.Margin < ttl/6 || o.Margin > ttl/3) {
		return fmt.Errorf("lease: Options.Margin is %v, want 0 or %v to %v, a sixth to a third of the TTL", o.Margin, ttl/6, ttl/3)
	}
	if most := ((MaxTTL - o.WithDefaults().TTL) * 5 / 6).Truncate(time.Millisecond); o.LockDelay < 0 || o.LockDelay > most {
		return fmt.Errorf("lease: Options.LockDelay is %v, want 0 to %v with a TTL of %v", o.LockDelay, most, o.WithDefaults().TTL)
	}
	if len(o.Owner) > maxOwner {
		return fmt.Errorf("lease: Options.Owner has %d bytes, want at most %d", len(o.Owner), maxOwner)
	}
	return nil
}

// maxOwner bounds Options.Owner, which is written into keys' values.
const maxOwner = 1024

// WithDefaults returns o as a session uses it, with defaults for TTL and Owner, TTL rounded up to whole
// seconds, and LockDelay rounded up to whole milliseconds.
func (o Options) WithDefaults() Options {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	o.TTL = (o.TTL + time.Second - 1).Truncate(time.Second)
	o.LockDelay = (o.LockDelay + time.Millisecond - 1).Truncate(time.Millisecond)
	if o.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return o
}
