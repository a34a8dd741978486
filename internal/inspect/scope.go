package inspect

import (
	"strings"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Scope is which names are looked at. The zero Scope is all of the namespace.
type Scope struct {
	Prefix     string // those that begin so
	Name       string // this one alone, whether anybody wants it or not
	EtcdLayout bool   // Name is verbatim
}

// A span is a range of keys: those that begin with prefix.
type span struct {
	prefix string
	asked  string // the one line that is asked for; "": none
}

// spans are where the keys of the scope lie: names with a slash apart from those
// without and from those in etcd's layout.
func (sc Scope) spans(namespace string) ([]span, error) {
	if sc.Name != "" {
		l, err := keys.NewQueue(namespace, sc.Name, sc.EtcdLayout)
		return []span{{l.Prefix, l.Prefix}}, err
	}
	escaped := keys.EscapePrefix(sc.Prefix)
	if strings.HasPrefix(escaped, sc.Prefix) { // as of no prefix: all in one
		return []span{{prefix: namespace + sc.Prefix}}, nil
	}
	return []span{{prefix: namespace + sc.Prefix}, {prefix: namespace + escaped}}, nil
}

// Prefixes are what the keys of the scope's names begin with, whatever layout they
// have. An impossible Name has none.
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

// keys are the span's range, as etcd wants it.
func (sp span) keys() (from, end []byte) {
	from = []byte(sp.prefix)
	if len(from) == 0 {
		from = []byte{0}
	}
	return from, txn.PrefixEnd(sp.prefix)
}
