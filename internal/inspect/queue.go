package inspect

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Queue is the holder and the waiters of one name at one moment, in order: the first
// holds it, or is about to, and the others wait. It is empty where nobody holds or
// waits.
type Queue []Queued

// A Queued is one position in a Queue. Unknown fields are empty: a key that etcd's own
// clients made does not name its owner.
type Queued struct {
	Key   string        // whole, namespace included
	Token fencing.Token // that it holds with, or will: the create revision of Key
	Owner string        // lease.Options.Owner of its session
	Host  string        // of its process, as the process reports it
	PID   int           // of its process
	// Since is when Key was put, by that process's clock. For a candidate it is when
	// the candidate's session began, which was earlier.
	Since time.Time
	Lease int64 // that Key is on: its session's ID; 0: none known
	Mode  Mode
	Slot  int // of a semaphore; -1: it takes no slot
}

// A Mode is how a position in a Queue holds or will hold the name.
type Mode string

const (
	// ModeExclusive: alone.
	ModeExclusive Mode = "exclusive"
	// ModeShared: together with other shared ones.
	ModeShared Mode = "shared"
	// ModeSemaphore: a slot of a semaphore.
	ModeSemaphore Mode = "semaphore"
	// ModeForeign: the key is in no form that pawl or etcd's clients make. It blocks
	// the name until somebody deletes it.
	ModeForeign Mode = "foreign"
)

// QueueOf reads the queue of a name, linearizably, through s. With a *pawl.Client it
// needs no session.
func QueueOf(ctx context.Context, s pawl.Sessions, name string, etcdLayout bool) (Queue, error) {
	host, err := inside.HostFor(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &reader{host}
	found, err := r.snapshot(ctx, Scope{Name: name, EtcdLayout: etcdLayout})
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
		Key: p.Key, Token: p.Token, Owner: p.Owner, Host: p.Host, PID: p.PID, Since: p.Since,
		Lease: p.Lease, Mode: ModeExclusive, Slot: -1,
	}
	k, _ := keys.ParseQueueKey(p.Key)
	switch {
	case p.Form == Foreign:
		q.Mode = ModeForeign
	case k.Form == keys.Shared:
		q.Mode = ModeShared
	case k.Form == keys.Turnstile:
		q.Mode = ModeSemaphore
	case k.Form == keys.Slot:
		q.Mode, q.Slot = ModeSemaphore, k.Slot
	}
	return q
}
