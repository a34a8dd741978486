package inspect

import (
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Form is whose keys look like that.
type Form int

const (
	Foreign Form = iota // nobody's: it blocks the line until somebody deletes it
	Pawl                // <lease>-<n>, whose session has a key of its own
	Etcd                // <lease>, as clientv3's concurrency and etcdctl make them
)

var forms = [...]string{"foreign", "pawl", "etcd"}

func (f Form) String() string { return forms[f] }

// A Place is one key in a line.
//
// What it wants is told by its value: a lock's key, of pawl in either layout, says
// so; a key of clientv3's is a lock's where the value is empty; every other is a
// candidate in an election.
type Place struct {
	Key      string
	Token    fencing.Token // the create revision
	Modified int64         // the revision of the last change
	Lease    int64         // 0: none, so that it stays until somebody deletes it
	Form     Form
	Election bool

	// Of a lock's key, or else of the session's. Empty where nobody says it.
	Owner string
	Host  string
	PID   int
	// Since is when the key was put, by its holder's clock; for a candidate it is when
	// the session began, which was earlier. Zero: nobody says it.
	Since time.Time

	Value []byte // a candidate's, its first KiB
	Size  int    // of the whole value

	// Seen and Held are when this process saw it come, and become first. Zero: it was
	// so already.
	Seen time.Time
	Held time.Time
}

// maxValue is how much of a candidate's value is kept.
const maxValue = 1 << 10

// formOf tells the form of a key by its last part, and the lease that it names. A
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

// newPlace is the place of a key as it was read.
func newPlace(key string, value []byte, create, mod, leaseID int64) Place {
	p := Place{Key: key, Token: fencing.Token(create), Modified: mod, Lease: leaseID}
	f, named := formOf(key)
	if f == Etcd && named != leaseID {
		return p
	}
	if p.Form = f; f != Foreign {
		p.read(value)
	}
	return p
}

// read takes in what the value says.
func (p *Place) read(value []byte) {
	p.Election = !keys.OfLock(value) && (p.Form == Pawl || len(value) > 0)
	p.Value, p.Size = nil, len(value)
	if p.Election {
		p.Value = append([]byte(nil), value[:min(len(value), maxValue)]...)
		return
	}
	p.sign(value)
}

// sign takes in who is behind it, from a lock's value or a session's. What cannot be
// read is left out.
func (p *Place) sign(value []byte) {
	if id := keys.ParseIdentity(value); id != (keys.Identity{}) {
		p.Owner, p.Host, p.PID, p.Since = id.Owner, id.Host, id.PID, id.Since
	}
}

// A Line is a name with those who want it.
type Line struct {
	Name   string
	Prefix string // of its keys, namespace included
	// EtcdLayout says that the name has a slash and is written verbatim; a name without
	// one has the same keys in both layouts.
	EtcdLayout bool
	Election   bool    // the first of known form is a candidate
	Queue      []Place // in order; the first one holds
}

// Mixed reports whether locks and candidates queue on the name together. They exclude each other.
func (l Line) Mixed() bool {
	locks, candidates := false, false
	for _, p := range l.Queue {
		locks = locks || p.Form != Foreign && !p.Election
		candidates = candidates || p.Form != Foreign && p.Election
	}
	return locks && candidates
}

// Holder is the first in line; false: there is none.
func (l Line) Holder() (p Place, ok bool) {
	if len(l.Queue) == 0 {
		return Place{}, false
	}
	return l.Queue[0], true
}
