package inspect

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/lease"
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

// lastPart is what stands behind the last slash, and folder what stands before it,
// the slash included.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
func folder(key string) string   { return key[:strings.LastIndexByte(key, '/')+1] }

// formOf tells the form of a key by its last part, and the lease that it names. A
// key of etcd's form has to be on that lease.
func formOf(key string) (f Form, named int64) {
	last := lastPart(key)
	if id, _, ok := queue.ParseAttempt(last); ok {
		return Pawl, id
	}
	id, err := strconv.ParseInt(last, 16, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 16) != last {
		return Foreign, 0
	}
	return Etcd, id
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
	line, labelled := labelOf(value)
	p.Election = !labelled && (p.Form == Pawl || len(value) > 0)
	p.Value, p.Size = nil, len(value)
	if p.Election {
		p.Value = append([]byte(nil), value[:min(len(value), maxValue)]...)
		return
	}
	p.sign(line)
}

// etcdMark is what lease.Session.EtcdLabel begins with.
const etcdMark = `{"layout":"etcd",`

// labelOf is the line of a lock's value that names its holder.
func labelOf(value []byte) (line string, ok bool) {
	line, _, _ = strings.Cut(string(value), "\n")
	return line, strings.HasPrefix(line, lease.LabelMark) || strings.HasPrefix(line, etcdMark)
}

// sign takes in who holds it, from a label or a session's key. What cannot be read
// is left out.
func (p *Place) sign(label string) {
	var who struct {
		Owner, Host string
		PID         int
		Since       time.Time
	}
	if json.Unmarshal([]byte(label), &who) == nil {
		p.Owner, p.Host, p.PID, p.Since = who.Owner, who.Host, who.PID, who.Since
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

// Holder is the first in line; false: there is none.
func (l Line) Holder() (p Place, ok bool) {
	if len(l.Queue) == 0 {
		return Place{}, false
	}
	return l.Queue[0], true
}
