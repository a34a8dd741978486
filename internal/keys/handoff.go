package keys

import (
	"bytes"
	"iter"
	"strconv"
)

// A Handoff is what the release of a queue key adds to the value of its successor: the key that was
// released, and the list of successors. It is written below the successor's previous value:
//
//	pawl:2026-01-02T03:04:12Z                  the key's own value, as it was
//	granted 7f3a-12 4711                       by which key, with which create revision
//	5b01-3 4713 22 31Z                         the successors, in order: a name, its create revision,
//	81c4-1 4720 0 {"pawl":"lock","owner":…     how much of the value before its own begins alike, the rest
//
// Names are without the queue's prefix.
type Handoff struct {
	By         []byte // the name of the key that was released
	Create     int64  // its create revision
	Successors Successors
}

// A Successor is a queue key that may receive a handoff: its name in the queue, its create
// revision, and its value.
type Successor struct {
	Name   []byte
	Create int64
	Value  []byte
}

// Successors are the queue keys after another one, in order, as a handoff carries them. The zero
// Successors is empty.
type Successors struct {
	before []byte // the value before the first one's
	list   []byte
}

const (
	handoffWord = "granted "

	// MaxSuccessors is how many successors are read for a list, and maxListBytes is about how long a
	// list may get.
	MaxSuccessors = 24
	maxListBytes  = 2 << 10

	maxDigits = len("9223372036854775807")
)

var (
	newline     = []byte("\n")
	space       = []byte(" ")
	handoffMark = []byte("\n" + handoffWord)
)

// NewSuccessors encodes all, which are consecutive in a queue, up to the first that cannot receive a
// handoff because its key has another form, or its value does not have the mark. Only the first line of
// each value is kept.
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

// receives reports whether the successor, with this value, can receive a handoff.
func (s Successor) receives(value []byte) bool {
	return s.Create > 0 && receives(value) && isQueueKey(s.Name)
}

// isQueueKey reports whether name is that of an exclusive queue key, directly in its queue. Keys of
// other forms neither make nor receive handoffs (rule RW4).
func isQueueKey(name []byte) bool {
	k, ok := ParseQueueKey(string(name))
	return ok && k.Form == Exclusive && bytes.IndexByte(name, '/') < 0
}

// Empty reports whether no successor is known.
func (s Successors) Empty() bool { return len(s.list) == 0 }

// First returns the first successor and the rest. ok is false if there is none that can receive
// a handoff.
func (s Successors) First() (first Successor, rest Successors, ok bool) {
	if s.Empty() {
		return Successor{}, Successors{}, false // the usual case, at no cost
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

// HandedOff is the value of s after the release of the key named by, with this create revision. It
// consists of the previous value and the handoff, which carries rest.
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

// ParseHandoff reads the handoff in a queue key's value. ok is false if there is none.
func ParseHandoff(value []byte) (h Handoff, ok bool) {
	own, rest, ok := bytes.Cut(value, handoffMark)
	if !ok || !receives(own) {
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

// alike is the length of the longest common prefix of a and b.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
