package inspect

import (
	"strings"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Scope is the names to read. The zero Scope is all of the namespace.
type Scope struct {
	Prefix     string // names with this prefix
	Name       string // this name only, even if its queue has only foreign keys
	EtcdLayout bool   // Name is verbatim
	Only       string // of Name: KindLock, also for elections, or KindSemaphore; both if ""

	// First is how many keys of each queue Read reads whole, those that hold or will hold first. Of the
	// others, only what their names show is known. 0 means all.
	First int
	// Held makes Read set HeldSince of holders, as far as etcd shows it.
	Held bool
}

// A span is the range of the keys with prefix.
type span struct {
	prefix string
	only   string // the one queue to return; all of them if ""
}

// spans returns the ranges of the scope's keys. Names with a slash lie apart from names without one
// and from names in etcd's layout. Semaphores lie apart from the rest.
func (sc Scope) spans(namespace string) ([]span, error) {
	if sc.Name != "" {
		return sc.nameSpans(namespace)
	}
	escaped := keys.EscapePrefix(sc.Prefix)
	under := func(root string) []span {
		if strings.HasPrefix(escaped, sc.Prefix) { // as with an empty prefix: one range has all
			return []span{{prefix: root + sc.Prefix}}
		}
		return []span{{prefix: root + sc.Prefix}, {prefix: root + escaped}}
	}
	spans := under(namespace)
	if strings.HasPrefix(keys.SemaphoreRoot(""), sc.Prefix) {
		return spans, nil // the first range has the semaphores, too
	}
	return append(spans, under(keys.SemaphoreRoot(namespace))...), nil
}

// nameSpans returns the ranges of the keys of Name.
func (sc Scope) nameSpans(namespace string) (spans []span, err error) {
	if sc.Only != KindSemaphore {
		l, err := keys.NewQueue(namespace, sc.Name, sc.EtcdLayout)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span{l.Prefix, l.Prefix})
	}
	if sc.Only == KindSemaphore || sc.Only == "" && !sc.EtcdLayout && keys.CheckSemaphore(sc.Name) == nil {
		l, err := keys.NewSemaphore(namespace, sc.Name)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span{l.Prefix, l.Prefix})
	}
	return spans, nil
}

// Prefixes returns the prefixes of the keys of the scope's names, in every layout. An
// invalid Name has none.
func (sc Scope) Prefixes(namespace string) (prefixes []string) {
	spans, err := sc.spans(namespace)
	if err != nil {
		return nil
	}
	for _, sp := range spans {
		prefixes = append(prefixes, sp.prefix)
	}
	return prefixes
}

// keys returns the span's range in etcd's form.
func (sp span) keys() (from, end []byte) {
	from = []byte(sp.prefix)
	if len(from) == 0 {
		from = []byte{0}
	}
	return from, txn.PrefixEnd(sp.prefix)
}
