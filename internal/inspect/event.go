package inspect

import (
	"fmt"
	"time"
)

// A Kind is what happened to a place.
type Kind int

const (
	Enqueued   Kind = iota // behind others
	Acquired               // it is first now
	Proclaimed             // a candidate that leads has put a new value
	Released               // given back by its holder
	Lost                   // taken from its holder
	GaveUp                 // it waited, and is gone
	Ended                  // released or lost: etcd does not tell
)

var kinds = [...]string{"enqueued", "acquired", "proclaimed", "released", "lost", "gave up", "ended"}

func (k Kind) String() string { return kinds[k] }

// MarshalText makes a Kind its name in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Cause is why a place ended, as far as etcd's data tell: see the package's comment.
type Cause int

const (
	NoCause     Cause = iota // it did not end
	HandedOn                 // its release granted the line to the next
	KeyDeleted               // its key was deleted while its session lived
	LeaseEnded               // with all keys of its lease
	Broken                   // Evict; Event.By says by whom
	Overwritten              // somebody else wrote its key
	Unknown
)

var causes = [...]string{
	"", "handed on", "key deleted", "lease ended", "broken", "overwritten", "cause unknown",
}

func (c Cause) String() string { return causes[c] }

// MarshalText makes a Cause its name in JSON.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// An Event is one change of one place.
type Event struct {
	Kind     Kind
	Cause    Cause
	By       string // Broken: by whom
	Name     string
	Prefix   string // of the line's keys
	Election bool   // a candidate's, not a lock's
	Place    Place  // as it was just before, or became
	Revision int64
	Time     time.Time // when this process learned of it

	// Waited is from the enqueueing on, Held from the acquisition on; below 0: not
	// known, or not meant.
	Waited, Held time.Duration

	// Unsure: a reading after a gap shows it. It happened at Revision or before.
	Unsure bool
}

const notKnown = time.Duration(-1)

func (e Event) String() string {
	s := fmt.Sprintf("%d %s %s token=%d", e.Revision, e.Name, e.Kind, e.Place.Token)
	if e.Cause != NoCause {
		s += " (" + e.Cause.String() + ")"
	}
	return s
}
