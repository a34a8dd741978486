package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
)

// maxOthers is how many foreign keys are kept.
const maxOthers = 10_000

// A state is the keys of a namespace, by the folders that they lie in. It is pure; its
// owner guards it.
//
// Invariants: a key is in each folder above it, at any depth, because a waiter waits
// for every key under its name; a folder's keys are in the order of their create
// revisions; folders without keys are not kept. A folder is a queue if a key of pawl's
// or etcd's form lies directly in it, or if the caller names it.
type state struct {
	namespace string
	rev       int64
	keys      map[string]*entry
	folders   map[string]*folder
	others    int // foreign keys that are kept
	ignored   int // foreign keys beyond the bound
}

// entry is a key and what was reported of it.
type entry struct {
	Position
	home    string // the folder that it lies directly in
	waiting bool   // it was reported as enqueued, or did not hold at the first read
	holds   bool   // it holds the name of its home, which was reported, or was so at the first read
	ended   bool   // its end was reported, and its key still exists
}

// folder is the keys in a folder.
type folder struct {
	queueName keys.Queue
	isName    bool // a name has this prefix
	own       int  // keys of a known form directly in it
	queue     []*entry
}

// holders returns how many at the front of the queue in folder f hold it: the first, and those
// that are shared with it. It does not count slots of a semaphore, which are held wherever they
// are.
func (l *folder) holders(f string) int {
	if l.queueName.Semaphore {
		return 0
	}
	n := 0
	for n < len(l.queue) && l.queue[n].modeIn(f) == ModeShared {
		n++
	}
	if n == 0 && len(l.queue) > 0 {
		n = 1
	}
	return n
}

// modeIn is e's mode in a folder. The key of another name is foreign there.
func (e *entry) modeIn(f string) Mode {
	if f != e.home {
		return ModeForeign
	}
	return e.Mode
}

func newState(namespace string) *state {
	return &state{namespace: namespace, keys: map[string]*entry{}, folders: map[string]*folder{}}
}

// above calls f with each folder that key lies in, below the namespace.
func (s *state) above(key string, f func(folder string)) {
	i := len(s.namespace)
	if root := keys.SemaphoreRoot(s.namespace); strings.HasPrefix(key, root) {
		i = len(root)
	}
	for ; i < len(key); i++ {
		if key[i] == '/' {
			f(key[:i+1])
		}
	}
}

// hides reports whether key is in no queue: a session key, a key of shards, or in no folder.
func (s *state) hides(key string) bool {
	rest, ok := strings.CutPrefix(key, s.namespace)
	return !ok || !strings.Contains(rest, "/") || keys.OfSessions(rest) || keys.OfShards(rest)
}

// add adds a new key. It returns nil for a key that is not kept.
func (s *state) add(p Position) *entry {
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
	e := &entry{Position: p, home: home}
	s.keys[p.Key] = e
	s.above(p.Key, func(f string) {
		l := s.folders[f]
		if l == nil {
			l = &folder{}
			l.queueName, l.isName = keys.ParseQueue(s.namespace, f)
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

// remove removes a key.
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

// inOrder is the order in which keys acquire.
func inOrder(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// settle notes who holds and who waits after a read, and reports nothing.
func (s *state) settle() {
	for f, l := range s.folders {
		n := l.holders(f)
		for i, e := range l.queue {
			if e.home == f {
				e.holds = i < n || e.HasSlot()
				e.waiting = !e.holds
			}
		}
	}
}

// queues returns all queues whose name begins with begin, sorted by name. The folder only is
// included even if its queue is empty.
func (s *state) queues(begin, only string) []NamedQueue {
	out := make([]NamedQueue, 0, len(s.folders))
	for _, f := range slices.Sorted(maps.Keys(s.folders)) {
		l := s.folders[f]
		if !l.isName || !strings.HasPrefix(l.queueName.Name, begin) || l.own == 0 && f != only {
			continue
		}
		q := NamedQueue{Name: l.queueName.Name, Prefix: f, EtcdLayout: l.queueName.EtcdLayout, Semaphore: l.queueName.Semaphore, Queue: make([]Position, len(l.queue))}
		n, slots := l.holders(f), false
		for i, e := range l.queue {
			p := e.positionIn(f)
			p.Holds = i < n || p.HasSlot()
			slots = slots || p.HasSlot()
			q.Queue[i] = p
		}
		if slots {
			slices.SortStableFunc(q.Queue, holdersFirst)
		}
		if i := slices.IndexFunc(q.Queue, func(p Position) bool { return p.Form != Foreign }); i >= 0 {
			q.Election = q.Queue[i].Election
		}
		out = append(out, q)
	}
	slices.SortStableFunc(out, byName)
	return out
}

// byName compares queues by name. A semaphore's comes after those of locks.
func byName(a, b NamedQueue) int {
	if c := cmp.Compare(a.Name, b.Name); c != 0 || a.Semaphore == b.Semaphore {
		return c
	}
	if a.Semaphore {
		return 1
	}
	return -1
}

// positionIn returns e's position in a folder. The key of another name is foreign
// there.
func (e *entry) positionIn(f string) Position {
	p := e.Position
	if f != e.home {
		p.Form, p.Election, p.Value, p.HeldSince = Foreign, false, nil, time.Time{}
		p.Mode, p.Slot, p.Limit, p.Names = ModeForeign, 0, 0, nil
	}
	return p
}

// holdersFirst compares positions by whether they hold, and by slot.
func holdersFirst(a, b Position) int {
	switch {
	case a.Holds && b.Holds:
		return cmp.Compare(a.Slot, b.Slot)
	case a.Holds:
		return -1
	case b.Holds:
		return 1
	}
	return 0
}
