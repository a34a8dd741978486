package inspect

import (
	"strings"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Scope is the names to read. The zero Scope is all of the namespace.
type Scope struct {
	Prefix     string // names with this prefix
	Name       string // this name only, even if its queue is empty
	EtcdLayout bool   // Name is verbatim
}

// A span is the range of the keys with prefix.
type span struct {
	prefix string
	only   string // the one queue to return; "": all of them
}

// spans returns the ranges of the scope's keys. Names with a slash lie apart from
// names without one and from names in etcd's layout.
func (sc Scope) spans(namespace string) ([]span, error) {
	if sc.Name != "" {
		l, err := keys.NewQueue(namespace, sc.Name, sc.EtcdLayout)
		return []span{{l.Prefix, l.Prefix}}, err
	}
	escaped := keys.EscapePrefix(sc.Prefix)
	if strings.HasPrefix(escaped, sc.Prefix) { // as with an empty prefix: one range has all
		return []span{{prefix: namespace + sc.Prefix}}, nil
	}
	return []span{{prefix: namespace + sc.Prefix}, {prefix: namespace + escaped}}, nil
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
