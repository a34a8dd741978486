package inspect

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Form is the layout of a key, which shows what made it.
type Form int

const (
	Foreign Form = iota // an unknown layout; the key blocks the queue until somebody deletes it
	Pawl                // <lease>-<n>, with what shows its mode before it; its session has a session key
	Etcd                // <lease>, as clientv3's concurrency and etcdctl make them
)

var forms = [...]string{"foreign", "pawl", "etcd"}

func (f Form) String() string { return forms[f] }

// A Position is one key in a queue.
//
// Its value shows whether it is a lock's or a candidate's. The value of a pawl lock's key says so,
// in either layout. A key of clientv3's with an empty value is a lock's. Every other key is a
// candidate's in an election.
type Position struct {
	Key      string
	Token    fencing.Token // the create revision
	Modified int64         // the revision of the last change
	Lease    int64         // 0 if none, so the key stays until somebody deletes it
	Form     Form
	Election bool
	Mode     Mode
	Slot     int // the slot of a semaphore that it holds, if HasSlot
	Limit    int // how many slots its holder's semaphore has; 0 if it holds none
	// Holds is set if it does not wait, in the queue that it was returned with.
	Holds bool

	// These are from a lock's key, a candidate's owner key, or else the session's key. They are
	// empty if none of them contains them.
	Owner string
	Host  string
	PID   int
	// Since is when the key was put, by its owner's clock. For a candidate without an owner key it
	// is when the session began, which was earlier. It is zero if unknown.
	Since time.Time

	// Stall, if not 0, is how long the holder may make no progress. Whether it makes any, no key shows.
	Stall time.Duration

	Names []string // of a set of names that is locked at once, as its key lists them; nil for a single name
	Value []byte   // a candidate's, its first KiB
	Size  int      // of the whole value

	// Observed and HeldSince are when this process observed the key to appear, and to become first.
	// They are zero if that was before this process began to read. With Scope.Held, HeldSince is Since if
	// the key acquired when it was put.
	Observed  time.Time
	HeldSince time.Time
}

// maxValue is how much of a candidate's value is kept.
const maxValue = 1 << 10

// formOf returns the form of a key, by its last part, and the lease that it names. A
// key of etcd's form has to be on that lease.
func formOf(key string) (f Form, keyLease int64) {
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
	f, keyLease := formOf(key)
	p := foreign(key, create, mod)
	p.Lease = leaseID
	if f == Foreign || f == Etcd && keyLease != leaseID {
		return p
	}
	p.Form, p.Mode = f, ModeExclusive
	switch k, _ := keys.ParseQueueKey(key); k.Form {
	case keys.Shared:
		p.Mode = ModeShared
	case keys.Turnstile:
		p.Mode = ModeSemaphore
	case keys.Slot:
		p.Mode, p.Slot, p.Limit = ModeSemaphore, k.Slot, k.Limit
	}
	p.read(value)
	return p
}

// foreign returns the position of a foreign key.
func foreign(key string, create, mod int64) Position {
	return Position{Key: key, Token: fencing.Token(create), Modified: mod, Mode: ModeForeign}
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

// identify sets the owner, and when the key was put, from a lock's value or a session's. A value
// that cannot be parsed changes nothing, nor does what a value leaves out.
func (p *Position) identify(value []byte) {
	id := keys.ParseIdentity(value)
	if !id.Since.IsZero() {
		p.Since = id.Since
	}
	if stall := keys.StallOf(value); stall > 0 {
		p.Stall = stall
	}
	if id.Owner != "" || id.Host != "" || id.PID != 0 {
		p.Owner, p.Host, p.PID = id.Owner, id.Host, id.PID
	}
}

// isNamed reports whether the key's value names its owner.
func (p *Position) isNamed() bool {
	return !p.Election && (p.Owner != "" || p.Host != "" || p.PID != 0)
}

// query is the query about the key's session at a revision.
func (p *Position) query(rev int64) query {
	id, n := sequenceOf(p.Key)
	return query{lease: id, n: n, rev: rev}
}

// belongs sets the owner of a key whose value does not name it, from the candidate's owner key, or
// else from the session's key.
func (p *Position) belongs(a answer) {
	if p.isNamed() {
		return
	}
	put := p.Since
	p.identify(a.value)
	p.identify(a.owner)
	if !put.IsZero() {
		p.Since = put
	}
}

// A NamedQueue is a name and its queue.
type NamedQueue struct {
	Name   string
	Prefix string // of its keys, namespace included
	// EtcdLayout is set if the name contains a slash and is written verbatim. A name without a
	// slash has the same keys in both layouts.
	EtcdLayout bool
	Semaphore  bool // a semaphore's; a lock or an election of the same name has a separate queue
	Election   bool // the first key of a known form is a candidate's
	// Queue lists who holds the name, and then who waits for it, in order. Holders of a semaphore
	// are in the order of their slots. A semaphore may have waiters and no holder, for a moment, or
	// if the first waiter is dead.
	Queue []Position
}

// What a name is used as: see Position.Kind.
const (
	KindLock      = "lock"
	KindElection  = "election"
	KindSemaphore = "semaphore"
)

// Kind returns what the position's key belongs to. A foreign key counts as a lock's.
func (p Position) Kind() string {
	switch {
	case p.Election:
		return KindElection
	case p.Mode == ModeSemaphore:
		return KindSemaphore
	}
	return KindLock
}

// HasSlot reports whether the position holds Slot of a semaphore.
func (p Position) HasSlot() bool { return p.Limit > 0 }

// Kinds returns what the name is used as, each kind once, in the order of the queue. There should
// be only one, because a lock and an election of one name wait for each other.
func (q NamedQueue) Kinds() (kinds []string) {
	for _, p := range q.Queue {
		if k := p.Kind(); p.Form != Foreign && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Kind returns what the first key of a known form uses the name as, and KindLock if there is none.
func (q NamedQueue) Kind() string {
	switch {
	case q.Semaphore:
		return KindSemaphore
	case q.Election:
		return KindElection
	}
	return KindLock
}

// Holder returns the first of Holders, and false if there is none.
func (q NamedQueue) Holder() (p Position, ok bool) {
	if q.holders() == 0 {
		return Position{}, false
	}
	return q.Queue[0], true
}

// Holders returns those that hold the name.
func (q NamedQueue) Holders() []Position { return q.Queue[:q.holders()] }

// Waiters returns those that wait, in the order in which they are served.
func (q NamedQueue) Waiters() []Position { return q.Queue[q.holders():] }

func (q NamedQueue) holders() int {
	n := 0
	for n < len(q.Queue) && q.Queue[n].Holds {
		n++
	}
	return n
}

// Limit returns how many slots of a semaphore can be held, which is the least limit among its
// holders. It returns 0 if that is not known.
func (q NamedQueue) Limit() (limit int) {
	for _, p := range q.Holders() {
		if p.Limit > 0 && (limit == 0 || p.Limit < limit) {
			limit = p.Limit
		}
	}
	return limit
}
