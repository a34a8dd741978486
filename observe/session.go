package observe

import "time"

// SessionGranted reports that a session began.
type SessionGranted struct {
	Lease   int64
	Owner   string
	TTL     time.Duration // as granted by the server
	Resumed bool          // it was taken over from another process

	// Left returns the validity that is left, or 0 once the session has ended. It reads the clock
	// at the call, does not block, and may be kept and called at any time.
	Left func() time.Duration
}

// SessionRenewed reports that a renewal was confirmed.
type SessionRenewed struct {
	Lease     int64
	Member    string        // the endpoint that confirmed it
	RoundTrip time.Duration // of the renewal and of the read that confirmed it, together
	Was       time.Duration // the validity that was left just before, which shows how close it came
	Left      time.Duration // the validity that is left now
}

// SessionHedged reports that a renewal had no answer for a while, and is tried on another member
// too. Whichever confirms first counts.
type SessionHedged struct {
	Lease  int64
	Slow   string        // the endpoint that has not answered
	Member string        // the endpoint that is tried now, the same one if there is no other
	After  time.Duration // since the first was tried
}

// SessionInJeopardy reports that less than half of the session's validity is left. It comes at most
// once between two renewals.
type SessionInJeopardy struct {
	Lease int64
	Left  time.Duration
	Err   error // why the last try to renew failed; nil if none has an answer yet
}

// SessionLost reports that the session has ended, with all its locks and terms, though this process
// did not end it.
type SessionLost struct {
	Lease int64
	Err   error // matches lease.ErrExpired, lease.ErrRevoked or pawl.ErrClusterChanged
}

// SessionClosed reports that this process ended the session, by Close, Detach, Client.Close or the
// end of elect.Run's term.
type SessionClosed struct {
	Lease int64
	Err   error // matches lease.ErrClosed; its text says more
}

// Reclaimed reports that the lease of a process that died is gone, long before it would have expired. A new
// session of this client had found the file that the process had left in pawl.Config.ReclaimDir. It is no
// event of a session of this process.
type Reclaimed struct {
	Lease int64
	Owner string        // of the dead process's session
	After time.Duration // from the proof of death, the session's lock-delay included
}
