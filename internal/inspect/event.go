package inspect

import (
	"fmt"
	"time"
)

// A Kind is what happened to a position.
type Kind int

const (
	Enqueued   Kind = iota // others are ahead of it
	Acquired               // it is first now
	Proclaimed             // a candidate that leads has put a new value
	Released               // by its process: released, or taken from a holder that held for too long or, in pawld, was silent
	Lost                   // taken from its holder
	GaveUp                 // it waited, and its key is gone
	Ended                  // released or lost: etcd does not record which
)

var kinds = [...]string{"enqueued", "acquired", "proclaimed", "released", "lost", "gave up", "ended"}

func (k Kind) String() string { return kinds[k] }

// MarshalText makes a Kind its name in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Cause is why a position ended, as far as etcd's data show. The package's comment lists them.
type Cause int

const (
	NoCause     Cause = iota // it did not end
	HandedOn                 // its release handed the queue to the next
	KeyDeleted               // its key was deleted while its session lived
	LeaseEnded               // with all keys of its lease
	Broken                   // by Evict; Event.By names the caller
	Overwritten              // somebody else wrote its key
	Unknown
)

var causes = [...]string{
	"", "handed on", "key deleted", "lease ended", "broken", "overwritten", "cause unknown",
}

func (c Cause) String() string { return causes[c] }

// MarshalText makes a Cause its name in JSON.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// An Event is one change of one position.
type Event struct {
	Kind     Kind
	Cause    Cause
	By       string // who broke it, if Broken
	Name     string
	Prefix   string   // of the queue's keys
	Election bool     // a candidate's, not a lock's
	Position Position // as it was just before, or became
	Revision int64
	Time     time.Time // when this process learned of it

	// Waited counts from the enqueueing, Held from the acquisition. Below 0 if not known, or if it
	// does not apply to this Kind.
	Waited, Held time.Duration

	// Unsure is set if a read after a gap showed the change. It then happened at Revision or
	// before.
	Unsure bool
}

const notKnown = time.Duration(-1)

func (e Event) String() string {
	s := fmt.Sprintf("%d %s %s token=%d", e.Revision, e.Name, e.Kind, e.Position.Token)
	if e.Cause != NoCause {
		s += " (" + e.Cause.String() + ")"
	}
	return s
}
