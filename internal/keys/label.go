package keys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// An Identity names the owner of a key, for people to read. It has the owner as configured, the
// process, and the time at which the key was put, by the clock of that process.
type Identity struct {
	Owner string    `json:"owner"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// Value is the value of a key that contains nothing else, such as the mark of an eviction.
func (id Identity) Value() []byte { return marshal(id) }

// SessionValue is the value of a session key. The nonce shows who wrote it, if the writer's
// answer was lost.
func SessionValue(id Identity, nonce string) []byte {
	return marshal(struct {
		Identity
		Nonce string `json:"nonce"`
	}{id, nonce})
}

// SessionNonce reads the nonce in a value that SessionValue wrote. It returns "" if there is none.
func SessionNonce(value []byte) string {
	var v struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	return v.Nonce
}

// ParseIdentity reads the identity in a value that Value, SessionValue or Lock wrote, with or without
// a handoff, in either layout. Of a value that Plain wrote it reads only Since. It leaves out what it
// cannot read.
func ParseIdentity(value []byte) (id Identity) {
	line, _, _ := bytes.Cut(value, newline)
	if IsPlain(line) {
		since, _, _ := bytes.Cut(line[len(MarkOf(line)):], space)
		id.Since, _ = time.Parse(time.RFC3339, string(since))
		return id
	}
	if json.Unmarshal(line, &id) != nil {
		return Identity{}
	}
	return id
}

// LockMark is the beginning of the value of a lock's queue key that names its owner, and plainMark that
// of a lock's queue key whose owner is named by the session key. No other value in a queue begins so.
// They distinguish a lock's key from a candidate's under the same name, and from a key in etcd's
// layout. Only keys with them receive handoffs.
const LockMark = `{"pawl":"lock",`

// etcdMark is LockMark for a key in etcd's layout.
const etcdMark = `{"layout":"etcd",`

const (
	plainMark     = "pawl:"
	etcdPlainMark = "pawl/etcd:"
)

// Plain is the value of the queue key, put at since, of a lock whose owner is its session's. The value
// contains only since, to the second. The owner is in the session key, which the name of the queue key
// leads to.
func Plain(since time.Time, etcdLayout bool) []byte {
	mark := plainMark
	if etcdLayout {
		mark = etcdPlainMark
	}
	b := make([]byte, len(mark), len(mark)+len("2006-01-02T15:04:05Z"))
	copy(b, mark)
	return since.UTC().AppendFormat(b, time.RFC3339)
}

// plainStall is what the value of Plain has after a space if its hold has a Stall.
const plainStall = " stall="

// WithStall returns a value of Plain, Lock, Multi or Value, in either layout, which says that the hold has a
// Stall. If stall is 0, it returns the value.
func WithStall(value []byte, stall time.Duration) []byte {
	switch {
	case stall == 0:
		return value
	case IsPlain(value):
		return append(append(value, plainStall...), stall.String()...)
	}
	return fmt.Appendf(value[:len(value)-1:len(value)-1], `,"stall":%q}`, stall)
}

// StallOf is the Stall that a value says its hold has, or 0. It takes any value.
func StallOf(value []byte) time.Duration {
	line, _, _ := bytes.Cut(value, newline)
	var v struct {
		Stall string `json:"stall"`
	}
	if IsPlain(line) {
		_, text, _ := bytes.Cut(line, []byte(plainStall))
		v.Stall = string(text)
	} else if json.Unmarshal(line, &v) != nil {
		return 0
	}
	stall, err := time.ParseDuration(v.Stall)
	if err != nil || stall < 0 {
		return 0
	}
	return stall
}

// IsPlain reports whether the value is one of a lock's queue key that does not name its owner.
func IsPlain(value []byte) bool {
	mark := MarkOf(value)
	return mark == plainMark || mark == etcdPlainMark
}

// receives reports whether a key with this value may receive a handoff.
func receives(value []byte) bool {
	mark := MarkOf(value)
	return mark == plainMark || mark == LockMark
}

// A Label makes the values of one session's lock keys. All but the time is encoded once.
type Label []byte

// NewLabel makes the label of a session, without id.Since.
func NewLabel(id Identity) Label {
	b := marshal(struct {
		Pawl  string `json:"pawl"`
		Owner string `json:"owner"`
		Host  string `json:"host"`
		PID   int    `json:"pid"`
	}{"lock", id.Owner, id.Host, id.PID})
	return append(b[:len(b)-1], `,"since":"`...)
}

// Lock is the value of a lock's queue key that is put at since. It is one line, which begins with
// LockMark.
func (l Label) Lock(since time.Time) []byte {
	b := make([]byte, len(l), len(l)+len(time.RFC3339Nano)+2)
	copy(b, l)
	b = since.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, `"}`...)
}

// multiMark is LockMark for a key of an acquisition of several names, which receives no
// handoffs.
const multiMark = `{"pawl":"multi",`

// maxNames is about how many bytes of names a set's value contains.
const maxNames = 1 << 10

// Multi is Lock for the keys of an acquisition of several names. It also contains how many
// names there are, and as many of them as fit into a little over a KiB.
func (l Label) Multi(since time.Time, names []string) []byte {
	size, count := 0, len(names)
	for i, name := range names {
		if size += len(name) + len(`"",`); size > maxNames {
			names = names[:i]
			break
		}
	}
	b := append([]byte(multiMark), `"count":`...)
	b = append(strconv.AppendInt(b, int64(count), 10), `,"names":`...)
	b = append(append(b, marshal(append([]string{}, names...))...), ',')
	return append(b, l.Lock(since)[len(LockMark):]...)
}

// ParseNames returns the names in a value that Multi made. It returns none for another value.
func ParseNames(value []byte) []string {
	var v struct {
		Names []string `json:"names"`
	}
	line, _, _ := bytes.Cut(value, newline)
	if !bytes.HasPrefix(line, []byte(multiMark)) || json.Unmarshal(line, &v) != nil {
		return nil
	}
	return v.Names
}

// SizeOfSet is how many names were acquired together, according to a value that Multi made, in either
// layout. ok is false for another value.
func SizeOfSet(value []byte) (names int, ok bool) {
	var v struct {
		Pawl  string   `json:"pawl"`
		Count int      `json:"count"`
		Names []string `json:"names"`
	}
	line, _, _ := bytes.Cut(value, newline)
	if !OfLock(value) || json.Unmarshal(line, &v) != nil || v.Pawl != "multi" {
		return 0, false
	}
	return max(v.Count, len(v.Names)), true
}

// InEtcdLayout returns a value of Lock or Multi as it is for a key in etcd's layout. It has the same
// content but does not begin with LockMark, because such a key never receives a handoff.
func InEtcdLayout(value []byte) []byte { return append([]byte(etcdMark), value[1:]...) }

// OfLock reports whether a queue key with this value is a lock's, in either layout.
func OfLock(value []byte) bool { return MarkOf(value) != "" }

// MarkOf is the beginning of the value of a lock's queue key. It is "" for another value.
func MarkOf(value []byte) string {
	for _, mark := range []string{plainMark, LockMark, etcdPlainMark, etcdMark, multiMark} {
		if len(value) >= len(mark) && string(value[:len(mark)]) == mark {
			return mark
		}
	}
	return ""
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("keys: value: " + err.Error()) // strings, numbers and times always marshal
	}
	return b
}
