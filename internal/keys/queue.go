package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxName is the length limit of a name, in bytes. Even escaped to three times its length, such a name
// fits into an etcd request many times over.
const MaxName = 1024

// A Queue is the queue of one name.
type Queue struct {
	Name       string // as given
	Prefix     string // the prefix of its keys, namespace included; ends in a slash
	EtcdLayout bool   // the name is used verbatim
	Semaphore  bool   // it is a semaphore's, whose keys lie apart from those of a lock of the same name
}

// NewQueue validates name and returns its queue. With etcdLayout the name is used verbatim, as
// clientv3's concurrency package does. Otherwise it is escaped so that no name's keys lie among
// another's.
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

// NewSemaphore validates name and returns the queue of the semaphore of this name. It is unrelated to
// the queue of a lock or an election of the same name.
func NewSemaphore(namespace, name string) (Queue, error) {
	if err := CheckSemaphore(name); err != nil {
		return Queue{}, err
	}
	return Queue{Name: name, Prefix: SemaphoreRoot(namespace) + escape(name) + "/", Semaphore: true}, nil
}

// CheckSemaphore returns what is wrong with a semaphore's name.
func CheckSemaphore(name string) error {
	if len(name) > maxSemaphore {
		return fmt.Errorf("the name has %d bytes, want at most %d for a semaphore", len(name), maxSemaphore)
	}
	return CheckName(name, false)
}

// A Spec is the queue and the form of a new queue key. With its lease and number they make up its name.
type Spec struct {
	Prefix string // of the queue's keys
	Form   Form
}

// slotRoot is the beginning of the fencing resources of semaphores' slots, and of no name.
const slotRoot = "//pawl/slot/"

// maxSemaphore is the length limit of a semaphore's name, in bytes. With it the resource of a
// slot is at most as long as a name may be.
const maxSemaphore = MaxName - len(slotRoot) - len("999/")

// SlotResource identifies a slot of the semaphore of this name to storage that checks fencing
// tokens. It is no valid name, and no two slots have the same.
func SlotResource(name string, slot int) string {
	return slotRoot + strconv.Itoa(slot) + "/" + name
}

// CheckName returns what is wrong with a name, in any namespace.
func CheckName(name string, etcdLayout bool) error {
	switch {
	case name == "":
		return errors.New("empty name")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes, want at most %d", len(name), MaxName)
	case strings.HasPrefix(name, slotRoot):
		return fmt.Errorf("the name begins with %q, as the fencing resources of semaphores' slots do", slotRoot)
	case strings.HasPrefix(name, shardRoot):
		return fmt.Errorf("the name begins with %q, as the names of shards do", shardRoot)
	case !etcdLayout:
		return nil
	}
	if prefix := name + "/"; strings.HasPrefix(prefix, sessionRoot) || strings.HasPrefix(sessionRoot, prefix) {
		return fmt.Errorf("the name %q in etcd's layout would contain the sessions' own keys, below %q", name, sessionRoot)
	}
	return nil
}

// ParseQueue is the inverse of NewQueue and NewSemaphore. It returns the queue whose keys have this
// prefix. A name without a slash has the same queue in both layouts, and EtcdLayout is false for it. ok
// is false if no name has such keys, as below SessionRoot.
func ParseQueue(namespace, prefix string) (q Queue, ok bool) {
	rest, ok := strings.CutPrefix(prefix, namespace)
	if !ok || OfSessions(rest) {
		return Queue{}, false
	}
	verbatim, ok := strings.CutSuffix(rest, "/")
	if !ok {
		return Queue{}, false
	}
	if of, ok := strings.CutPrefix(verbatim, sessionRoot+semaphoreRoot); ok {
		name, escaped := unescape(of)
		if !escaped {
			return Queue{}, false
		}
		q, err := NewSemaphore(namespace, name)
		return q, err == nil
	}
	name, escaped := unescape(verbatim)
	if !escaped {
		name = verbatim
	}
	q, err := NewQueue(namespace, name, !escaped)
	return q, err == nil
}

// EscapePrefix is the common prefix, after the namespace, of the keys of all names that begin with
// begin and contain a slash.
func EscapePrefix(begin string) string { return "/" + slashes.Replace(begin) }

// Quote formats names for an error's text, in quotes. Each is shortened if it is longer than a name may
// be.
func Quote(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		if quoted[i] = strconv.Quote(name); len(name) > MaxName {
			quoted[i] = strconv.Quote(name[:64]) + "…"
		}
	}
	return strings.Join(quoted, ", ")
}

var (
	slashes   = strings.NewReplacer("%", "%25", "/", "%2F")
	unslashes = strings.NewReplacer("%2F", "/", "%25", "%")
)

// escape returns a name without a slash unchanged, and one with a slash as a slash and the escaped
// name. Only escaped names of the form "/<no slash>" contain a slash, so none is a directory of
// another, and none begins with two.
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
