package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
)

// maxOthers is how many keys of nobody's form are kept.
const maxOthers = 10_000

// A state is the keys of a namespace, by the folders that they lie in. It is pure;
// its owner guards it.
//
// Invariants: a key is in each folder above it, at any depth, for whatever has a
// key under a name is waited for; a folder's keys are in the order of their create
// revisions; folders without keys are not kept. A folder is a line if a key of
// pawl's or etcd's form lies right in it; or if it is asked for by name.
type state struct {
	namespace string
	rev       int64
	keys      map[string]*entry
	folders   map[string]*lane
	others    int // kept keys of nobody's form
	ignored   int // those that were too many
}

// entry is a key and what was said of it.
type entry struct {
	Place
	home  string // the folder that it lies right in
	waits bool   // it was told as enqueued, or was behind others from the start
	over  bool   // its end was told, and its key is still there
}

// lane is a folder's keys.
type lane struct {
	line  keys.Queue
	named bool // a name has such keys
	own   int  // keys of known form right in it
	queue []*entry
	first *entry // as was last told
}

func newState(namespace string) *state {
	return &state{namespace: namespace, keys: map[string]*entry{}, folders: map[string]*lane{}}
}

// above calls f with the folders that key lies in, behind the namespace.
func (s *state) above(key string, f func(folder string)) {
	for i := len(s.namespace); i < len(key); i++ {
		if key[i] == '/' {
			f(key[:i+1])
		}
	}
}

// hides reports whether key is not a line's: a session's own, or not in a folder.
func (s *state) hides(key string) bool {
	rest, ok := strings.CutPrefix(key, s.namespace)
	return !ok || !strings.Contains(rest, "/") || keys.OfSessions(rest)
}

// add takes a new key in; nil: it is none that counts.
func (s *state) add(p Place) *entry {
	if s.hides(p.Key) {
		return nil
	}
	if p.Form == Foreign {
		if s.others >= maxOthers {
			s.ignored++
			return nil
		}
		s.others++
	}
	home, _ := keys.Split(p.Key)
	e := &entry{Place: p, home: home}
	s.keys[p.Key] = e
	s.above(p.Key, func(f string) {
		l := s.folders[f]
		if l == nil {
			l = &lane{}
			l.line, l.named = keys.ParseQueue(s.namespace, f)
			s.folders[f] = l
		}
		at, _ := slices.BinarySearchFunc(l.queue, e, inOrder)
		l.queue = slices.Insert(l.queue, at, e)
		if f == e.home && p.Form != Foreign {
			l.own++
		}
	})
	return e
}

// remove takes a key out.
func (s *state) remove(e *entry) {
	delete(s.keys, e.Key)
	if e.Form == Foreign {
		s.others--
	}
	s.above(e.Key, func(f string) {
		l := s.folders[f]
		if at, ok := slices.BinarySearchFunc(l.queue, e, inOrder); ok {
			l.queue = slices.Delete(l.queue, at, at+1)
		}
		if f == e.home && e.Form != Foreign {
			l.own--
		}
		if len(l.queue) == 0 {
			delete(s.folders, f)
		}
	})
}

// inOrder is the order in which keys hold.
func inOrder(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// settle notes who is first in each line, as a reading found it, and tells nothing.
func (s *state) settle() {
	for f, l := range s.folders {
		l.first = l.queue[0]
		for _, e := range l.queue[1:] {
			e.waits = e.waits || e.home == f
		}
	}
}

// lines are all lines whose name begins with begin, by name. asked is the folder
// that counts as one in any case.
func (s *state) lines(begin, asked string) []Line {
	out := make([]Line, 0, len(s.folders))
	for _, f := range slices.Sorted(maps.Keys(s.folders)) {
		l := s.folders[f]
		if !l.named || !strings.HasPrefix(l.line.Name, begin) || l.own == 0 && f != asked {
			continue
		}
		line := Line{Name: l.line.Name, Prefix: f, EtcdLayout: l.line.EtcdLayout, Queue: make([]Place, len(l.queue))}
		for i, e := range l.queue {
			line.Queue[i] = e.placeIn(f)
		}
		if i := slices.IndexFunc(line.Queue, func(p Place) bool { return p.Form != Foreign }); i >= 0 {
			line.Election = line.Queue[i].Election
		}
		out = append(out, line)
	}
	slices.SortStableFunc(out, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// placeIn is e as a place in a folder: a key of another name's is foreign there.
func (e *entry) placeIn(f string) Place {
	p := e.Place
	if f != e.home {
		p.Form, p.Election, p.Value, p.Held = Foreign, false, nil, time.Time{}
	}
	return p
}
