package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxName is the length limit of a name, in bytes: one that is escaped to three
// times its length still fits into an etcd request many times over.
const MaxName = 1024

// A Queue is where all who want one name queue.
type Queue struct {
	Name       string // as given
	Prefix     string // of its keys, namespace included; ends in a slash
	EtcdLayout bool   // the name was taken verbatim
}

// NewQueue checks name and returns its queue. With etcdLayout the name is taken
// verbatim, as clientv3's concurrency package takes it; otherwise it is escaped
// so that no name's keys lie among another's.
func NewQueue(namespace, name string, etcdLayout bool) (Queue, error) {
	if err := CheckName(name, etcdLayout); err != nil {
		return Queue{}, err
	}
	prefix := namespace + name + "/"
	if !etcdLayout {
		prefix = namespace + escape(name) + "/"
	}
	return Queue{Name: name, Prefix: prefix, EtcdLayout: etcdLayout}, nil
}

// A Place is where a queue key is to be put: in which queue, and in which form.
type Place struct {
	Prefix string // of the queue's keys
	Form   Form
}

// slotRoot begins the fencing resources of semaphores' slots, and no name.
const slotRoot = "//pawl/slot/"

// MaxSemaphore is the length limit of a semaphore's name, in bytes: one with which the
// resource of each slot is as long as a name may be.
const MaxSemaphore = MaxName - len(slotRoot) - len("999/")

// SlotResource is what a slot of the semaphore of this name is to storage that checks fencing
// tokens. It is no name, and no two slots have the same.
func SlotResource(name string, slot int) string {
	return slotRoot + strconv.Itoa(slot) + "/" + name
}

// CheckName says what is wrong with a name, in any namespace.
func CheckName(name string, etcdLayout bool) error {
	switch {
	case name == "":
		return errors.New("empty name")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes, want at most %d", len(name), MaxName)
	case strings.HasPrefix(name, slotRoot):
		return fmt.Errorf("the name begins with %q, as the fencing resources of semaphores' slots do", slotRoot)
	case !etcdLayout:
		return nil
	}
	if prefix := name + "/"; strings.HasPrefix(prefix, sessionRoot) || strings.HasPrefix(sessionRoot, prefix) {
		return fmt.Errorf("the name %q in etcd's layout would contain the sessions' own keys, below %q", name, sessionRoot)
	}
	return nil
}

// ParseQueue is the inverse of NewQueue: it returns the queue whose keys have this
// prefix. A name without a slash has the same queue in both layouts, and EtcdLayout
// is false for it. ok is false where no name has such keys, as among the sessions'
// own.
func ParseQueue(namespace, prefix string) (q Queue, ok bool) {
	rest, ok := strings.CutPrefix(prefix, namespace)
	if !ok || OfSessions(rest) {
		return Queue{}, false
	}
	verbatim, ok := strings.CutSuffix(rest, "/")
	if !ok {
		return Queue{}, false
	}
	name, escaped := unescape(verbatim)
	if !escaped {
		name = verbatim
	}
	q, err := NewQueue(namespace, name, !escaped)
	return q, err == nil
}

// EscapePrefix is what the prefixes of all names that begin with begin and hold a
// slash have in common, after the namespace.
func EscapePrefix(begin string) string { return "/" + slashes.Replace(begin) }

// Quote is a name for an error's text, in quotes, and shortened where it is longer
// than a name can be.
func Quote(name string) string {
	if len(name) > MaxName {
		return strconv.Quote(name[:64]) + "…"
	}
	return strconv.Quote(name)
}

var (
	slashes   = strings.NewReplacer("%", "%25", "/", "%2F")
	unslashes = strings.NewReplacer("%2F", "/", "%25", "%")
)

// escape keeps a name without a slash as it is; one with a slash becomes a
// slash and the name escaped. Of escaped names only those of the form "/<no slash>"
// contain a slash, so none is a directory of another, and none begins with two.
func escape(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	return "/" + slashes.Replace(name)
}

// unescape is the inverse of escape.
func unescape(escaped string) (name string, ok bool) {
	name = strings.TrimPrefix(escaped, "/")
	if name != escaped {
		name = unslashes.Replace(name)
	}
	return name, escape(name) == escaped
}
