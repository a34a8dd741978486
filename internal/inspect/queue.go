package inspect

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
)

// A Queue lists who holds one name and who waits for it at one moment. First come those that hold
// it, or are about to, and then those that wait, in order. It is empty if nobody holds or waits.
type Queue []Queued

// A Queued is one position in a Queue. Unknown fields are empty, because a key that etcd's own
// clients made does not name its owner.
type Queued struct {
	Key string // whole, namespace included
	// Token is the create revision of Key, with which it holds, or will hold. One that waits for a slot
	// gets another Key, and so another Token.
	Token fencing.Token
	Holds bool   // it holds, or is about to; otherwise it waits
	Owner string // of the Options with which it was acquired, or of its session's lease.Options
	Host  string // of its process, as the process reports it
	PID   int    // of its process
	// Since is when Key was put, by that process's clock. For a candidate whose Options name no
	// Owner it is when the candidate's session began, which was earlier.
	Since time.Time
	Lease int64 // the lease that Key is on, its session's ID; 0 if not known
	Mode  Mode
	Slot  int // the slot of a semaphore that it holds, or -1
	// Stall, if not 0, is after how long without Progress it loses what it holds: see lock.Options.Stall.
	Stall time.Duration
}

// A Mode is how a position in a queue holds or will hold the name.
type Mode string

const (
	// ModeExclusive is held by one holder alone.
	ModeExclusive Mode = "exclusive"
	// ModeShared is held together with other shared holders.
	ModeShared Mode = "shared"
	// ModeSemaphore is a slot of a semaphore.
	ModeSemaphore Mode = "semaphore"
	// ModeForeign is a key of a form that neither pawl nor etcd's clients make. It blocks the name
	// until somebody deletes it.
	ModeForeign Mode = "foreign"
)

// String is the mode's name.
func (m Mode) String() string { return string(m) }

// QueueOf reads the queue of one name, linearizably, through s. If a lock and a semaphore have that
// name, scope.Only says which of them. With a *pawl.Client it needs no session.
func QueueOf(ctx context.Context, s pawl.Sessions, scope Scope) (Queue, error) {
	host, err := hooks.HostFor(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &reader{host}
	found, err := r.snapshot(ctx, scope)
	if err != nil || len(found.Queues) == 0 {
		return nil, err
	}
	q := make(Queue, 0, len(found.Queues[0].Queue))
	for _, p := range found.Queues[0].Queue {
		q = append(q, p.queued())
	}
	return q, nil
}

func (p Position) queued() Queued {
	q := Queued{
		Key: p.Key, Token: p.Token, Holds: p.Holds, Owner: p.Owner, Host: p.Host, PID: p.PID, Since: p.Since,
		Lease: p.Lease, Mode: p.Mode, Slot: -1, Stall: p.Stall,
	}
	if p.HasSlot() {
		q.Slot = p.Slot
	}
	return q
}
