package keys

import (
	"bytes"
	"iter"
	"strconv"
)

// A Handoff is what the release of one queue key puts on its successor's: by which
// key, and who comes after. It is written below the successor's own value:
//
//	{"pawl":"lock","owner":…,"since":"…:12Z"}  the key's own value, as it was
//	granted 7f3a-12 4711                       by which key, with which create revision
//	5b01-3 4713 71 31Z"}                       the successors, in order: a name, its create revision,
//	81c4-1 4720 16 "worker-2",…                how much of the value before its own begins alike, the rest
//
// Names stand without the queue's prefix.
type Handoff struct {
	By         []byte // the name of the key that was released
	Create     int64  // its create revision
	Successors Successors
}

// A Successor is a queue key that is to be handed off to: its name in the queue, its
// create revision, and its value.
type Successor struct {
	Name   []byte
	Create int64
	Value  []byte
}

// Successors are those after a queue key, in order, as a handoff carries them. The
// zero Successors is empty.
type Successors struct {
	before []byte // the value before the first one's
	list   []byte
}

const (
	handoffWord = "granted "

	// MaxSuccessors is how many successors need be read for a list, and
	// maxListBytes is about how long a list becomes.
	MaxSuccessors = 24
	maxListBytes  = 2 << 10

	maxDigits = len("9223372036854775807")
)

var (
	newline     = []byte("\n")
	space       = []byte(" ")
	handoffMark = []byte("\n" + handoffWord)
)

// NewSuccessors writes down those of all, which follow one another in a queue, up to
// the first that is not to be handed off to: a key in another form, or a value
// without LockMark. What a value has below its first line is left out.
func NewSuccessors(all iter.Seq[Successor]) (s Successors) {
	var before []byte
	for next := range all {
		value, _, _ := bytes.Cut(next.Value, newline)
		n := alike(before, value)
		if !next.receives(value) || len(s.list)+len(next.Name)+len(value)-n > maxListBytes {
			break
		}
		s.list = append(s.list, next.Name...)
		s.list = strconv.AppendInt(append(s.list, ' '), next.Create, 10)
		s.list = strconv.AppendInt(append(s.list, ' '), int64(n), 10)
		s.list = append(append(s.list, ' '), value[n:]...)
		s.list = append(s.list, '\n')
		before = value
	}
	return s
}

// receives reports whether the successor, with this value, can be handed off to.
func (s Successor) receives(value []byte) bool {
	return s.Create > 0 && bytes.HasPrefix(value, lockMark) && isQueueKey(s.Name)
}

// isQueueKey reports whether name is that of an exclusive queue key, right in its queue:
// no other form hands a queue on, or is handed one (rule RW4).
func isQueueKey(name []byte) bool {
	k, ok := ParseQueueKey(string(name))
	return ok && k.Form == Exclusive && bytes.IndexByte(name, '/') < 0
}

// Empty reports whether no successor is known.
func (s Successors) Empty() bool { return len(s.list) == 0 }

// First takes the first off. ok is false where there is none that can be handed off
// to.
func (s Successors) First() (first Successor, rest Successors, ok bool) {
	if s.Empty() {
		return Successor{}, Successors{}, false // as for most, and at no cost
	}
	line, list, ok := bytes.Cut(s.list, newline)
	name, line, _ := bytes.Cut(line, space)
	create, line, _ := bytes.Cut(line, space)
	same, tail, _ := bytes.Cut(line, space)
	n, err := strconv.Atoi(string(same))
	if !ok || err != nil || n < 0 || n > len(s.before) {
		return Successor{}, Successors{}, false
	}
	rev, ok := parseNumber(string(create), 10)
	value := append(s.before[:n:n], tail...)
	first = Successor{Name: name, Create: rev, Value: value}
	if !ok || !first.receives(value) {
		return Successor{}, Successors{}, false
	}
	return first, Successors{before: value, list: list}, true
}

// HandedOff is the value of s after the release of the key named by, with this create
// revision: its own and the handoff, which carries rest.
func (s Successor) HandedOff(by string, create int64, rest Successors) []byte {
	v := make([]byte, 0, len(s.Value)+len(handoffMark)+len(by)+len(rest.list)+len(" \n")+maxDigits)
	v = append(v, s.Value...)
	v = append(v, handoffMark...)
	v = append(v, by...)
	v = append(v, ' ')
	v = strconv.AppendInt(v, create, 10)
	v = append(v, '\n')
	return append(v, rest.list...)
}

// ParseHandoff reads the handoff in a queue key's value. ok is false where there is
// none.
func ParseHandoff(value []byte) (h Handoff, ok bool) {
	own, rest, ok := bytes.Cut(value, handoffMark)
	if !ok || !bytes.HasPrefix(own, lockMark) {
		return Handoff{}, false
	}
	line, list, _ := bytes.Cut(rest, newline)
	name, create, _ := bytes.Cut(line, space)
	rev, ok := parseNumber(string(create), 10)
	if !ok || !isQueueKey(name) {
		return Handoff{}, false
	}
	return Handoff{By: name, Create: rev, Successors: Successors{before: own, list: list}}, true
}

// alike is with how many bytes a and b begin alike.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
