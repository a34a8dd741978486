package inspect

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inside"
)

// A Queue is who wants one name at one moment, in order: the first holds it, or is
// about to, and the others wait. It is empty where nobody wants the name.
type Queue []Queued

// A Queued is one in a Queue. What nobody says is empty: a key that etcd's own clients
// made does not say whose it is.
type Queued struct {
	Key   string        // whole, namespace included
	Token fencing.Token // what it holds with, or will: the create revision of Key
	Owner string        // lease.Options.Owner of its session
	Host  string        // of its process, as that calls itself
	PID   int           // of its process
	// Since is when Key was put, by that process's clock. For a candidate it is when
	// the candidate's session began, which was earlier.
	Since time.Time
	Lease int64 // that Key is on: its session's ID; 0: none known
	Mode  Mode
	Slot  int // of a semaphore; -1: it takes no slot
}

// A Mode is how one in a Queue wants the name.
type Mode string

const (
	// ModeExclusive: alone.
	ModeExclusive Mode = "exclusive"
	// ModeForeign: the key is in no form that pawl or etcd's clients make. It blocks
	// the name until somebody deletes it.
	ModeForeign Mode = "foreign"
)

// QueueOf reads who wants a name, linearizably, by one that gives sessions. A
// *pawl.Client is asked for none.
func QueueOf(ctx context.Context, s pawl.Sessions, name string, etcdLayout bool) (Queue, error) {
	host, err := inside.HostFor(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &reader{host}
	found, err := r.survey(ctx, Scope{Name: name, EtcdLayout: etcdLayout})
	if err != nil || len(found.Lines) == 0 {
		return nil, err
	}
	q := make(Queue, 0, len(found.Lines[0].Queue))
	for _, p := range found.Lines[0].Queue {
		q = append(q, p.queued())
	}
	return q, nil
}

func (p Place) queued() Queued {
	q := Queued{
		Key: p.Key, Token: p.Token, Owner: p.Owner, Host: p.Host, PID: p.PID, Since: p.Since,
		Lease: p.Lease, Mode: ModeExclusive, Slot: -1,
	}
	if p.Form == Foreign {
		q.Mode = ModeForeign
	}
	return q
}
