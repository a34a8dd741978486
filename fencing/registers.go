package fencing

import "sync/atomic"

// A pair is the two registers of a resource. exclusive ≤ highest.
type pair struct {
	exclusive Token // the highest exclusive token admitted
	highest   Token // the highest token of either mode
}

func (p pair) max(q pair) pair { return pair{max(p.exclusive, q.exclusive), max(p.highest, q.highest)} }

// admit decides on t. An exclusive token must not be below the highest of either mode, and becomes both.
// A shared one must be above the highest exclusive one, and raises the other register. It returns the
// register that t was compared with, and the pair that results.
func (p pair) admit(t Token, shared bool) (seen Token, next pair) {
	if shared {
		if seen = p.exclusive; seen < t {
			next.highest = t
		}
		return seen, p.max(next)
	}
	if seen = max(p.highest, t); seen == t {
		next = pair{t, t}
	}
	return seen, p.max(next)
}

// registers are the registers of a resource that a gate remembers. Both only rise, until the entry
// is forgotten, once, and decides nothing any more. They are read in one step, and changed in one
// step, so that a token which is refused because of another is refused for good.
type registers struct {
	resource string
	pair     atomic.Pointer[pair] // nil once forgotten; what it points to does not change
	used     atomic.Bool          // since the last sweep
}

const forgotten = -1

func newRegisters(resource string, p pair) *registers {
	r := &registers{resource: resource}
	r.pair.Store(&p)
	return r
}

// admit decides on t by both registers, and raises them if it is admitted. It returns the register
// that t was compared with, or forgotten.
func (r *registers) admit(t Token, shared bool) (seen Token) {
	for {
		seen, done := r.decide(r.pair.Load(), t, shared)
		if done {
			return seen
		}
	}
}

// decide is admit by what was read before. It returns false if the registers have changed since.
func (r *registers) decide(was *pair, t Token, shared bool) (seen Token, done bool) {
	if was == nil {
		return forgotten, true
	}
	seen, next := was.admit(t, shared)
	return seen, r.replace(was, next)
}

// replace changes the registers from what was read before. It returns false if they have changed
// since.
func (r *registers) replace(was *pair, next pair) bool {
	if *was == next {
		return true
	}
	raised := next // so that nothing is allocated before
	return r.pair.CompareAndSwap(was, &raised)
}

// raise makes both registers at least those of p.
func (r *registers) raise(p pair) {
	for {
		was := r.pair.Load()
		if was == nil || r.replace(was, was.max(p)) {
			return
		}
	}
}

// load returns both, of an entry that is not forgotten.
func (r *registers) load() pair { return *r.pair.Load() }

// forget ends the entry and returns what its registers were. A concurrent admission that has read them
// before learns that the entry is forgotten.
func (r *registers) forget() pair { return *r.pair.Swap(nil) }

// touch keeps the entry over the next sweep. It reads before it writes, because many readers of
// one resource share the cache line.
func (r *registers) touch() {
	if !r.used.Load() {
		r.used.Store(true)
	}
}

// compare refuses a token because of the register that it was compared with.
func compare(resource string, t, seen Token, shared bool) error {
	if t < seen || shared && t == seen {
		return &StaleError{Resource: resource, Got: t, Highest: seen}
	}
	return nil
}
