package inspect

import (
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Form is the layout of a key, which says who made it.
type Form int

const (
	Foreign Form = iota // an unknown layout: the key blocks the queue until somebody deletes it
	Pawl                // <lease>-<n>, whose session has a key of its own
	Etcd                // <lease>, as clientv3's concurrency and etcdctl make them
)

var forms = [...]string{"foreign", "pawl", "etcd"}

func (f Form) String() string { return forms[f] }

// A Position is one key in a queue.
//
// Its value says whether it is a lock's or a candidate's. A lock's key of pawl, in
// either layout, says so; a key of clientv3's with an empty value is a lock's; every
// other key is a candidate's in an election.
type Position struct {
	Key      string
	Token    fencing.Token // the create revision
	Modified int64         // the revision of the last change
	Lease    int64         // 0: none, so the key stays until somebody deletes it
	Form     Form
	Election bool

	// From a lock's key, or else from the session's. Empty where neither says it.
	Owner string
	Host  string
	PID   int
	// Since is when the key was put, by its owner's clock; for a candidate it is when
	// the session began, which was earlier. Zero: unknown.
	Since time.Time

	Names []string // of a set of names that is locked at once, as its key says them; nil: one name alone
	Value []byte   // a candidate's, its first KiB
	Size  int      // of the whole value

	// Observed and HeldSince are when this process observed the key to appear, and to
	// become first. Zero: it was so before this process began to read.
	Observed  time.Time
	HeldSince time.Time
}

// maxValue is how much of a candidate's value is kept.
const maxValue = 1 << 10

// formOf returns the form of a key, by its last part, and the lease that it names. A
// key of etcd's form has to be on that lease.
func formOf(key string) (f Form, named int64) {
	if k, ok := keys.ParseQueueKey(key); ok {
		return Pawl, k.Lease
	}
	if id, ok := keys.ParsePeerKey(key); ok {
		return Etcd, id
	}
	return Foreign, 0
}

// newPosition returns the position of a key as it was read.
func newPosition(key string, value []byte, create, mod, leaseID int64) Position {
	p := Position{Key: key, Token: fencing.Token(create), Modified: mod, Lease: leaseID}
	f, named := formOf(key)
	if f == Etcd && named != leaseID {
		return p
	}
	if p.Form = f; f != Foreign {
		p.read(value)
	}
	return p
}

// read sets what the value says.
func (p *Position) read(value []byte) {
	p.Election = !keys.OfLock(value) && (p.Form == Pawl || len(value) > 0)
	p.Value, p.Size, p.Names = nil, len(value), nil
	if p.Election {
		p.Value = append([]byte(nil), value[:min(len(value), maxValue)]...)
		return
	}
	p.Names = keys.ParseNames(value)
	p.identify(value)
}

// Mode is how the position holds or will hold the name.
func (p Position) Mode() Mode { return p.queued().Mode }

// identify sets the owner from a lock's value or a session's. A value that cannot be
// parsed changes nothing.
func (p *Position) identify(value []byte) {
	if id := keys.ParseIdentity(value); id != (keys.Identity{}) {
		p.Owner, p.Host, p.PID, p.Since = id.Owner, id.Host, id.PID, id.Since
	}
}

// A NamedQueue is a name and its queue.
type NamedQueue struct {
	Name   string
	Prefix string // of its keys, namespace included
	// EtcdLayout: the name contains a slash and is written verbatim. A name without a
	// slash has the same keys in both layouts.
	EtcdLayout bool
	Election   bool       // the first key of a known form is a candidate's
	Queue      []Position // in order; the first holds
}

// Mixed reports whether locks and candidates queue on the name together. They exclude each other.
func (q NamedQueue) Mixed() bool {
	locks, candidates := false, false
	for _, p := range q.Queue {
		locks = locks || p.Form != Foreign && !p.Election
		candidates = candidates || p.Form != Foreign && p.Election
	}
	return locks && candidates
}

// Holder returns the first in the queue; false: the queue is empty.
func (q NamedQueue) Holder() (p Position, ok bool) {
	if len(q.Queue) == 0 {
		return Position{}, false
	}
	return q.Queue[0], true
}
