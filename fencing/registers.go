package fencing

import "sync/atomic"

// A pair is the two registers of a resource. exclusive ≤ highest.
type pair struct {
	exclusive Token // the highest exclusive token admitted
	highest   Token // the highest token of either mode
}

func (p pair) max(q pair) pair { return pair{max(p.exclusive, q.exclusive), max(p.highest, q.highest)} }

// registers are the registers of a resource that a gate remembers. Both only rise, until
// highest becomes forgotten, once; from then on the entry decides nothing.
type registers struct {
	resource  string
	exclusive atomic.Int64
	highest   atomic.Int64
	used      atomic.Bool // since the last sweep
}

const forgotten = -1

func newRegisters(resource string, p pair) *registers {
	r := &registers{resource: resource}
	r.raise(p)
	return r
}

// admit decides on t: an exclusive token must not be below the highest of either mode, and becomes both; a shared one must be above the highest exclusive one,
// and raises the other register. It returns the register that t was compared with, or forgotten.
func (r *registers) admit(t Token, shared bool) (seen Token) {
	if shared {
		seen = Token(r.exclusive.Load())
		if seen < t && raise(&r.highest, t) == forgotten {
			return forgotten
		}
		return seen
	}
	if seen = raise(&r.highest, t); seen == t {
		seen = r.raiseExclusive(t)
	}
	return seen
}

// raiseExclusive raises the second register after the first, and returns t, or forgotten.
func (r *registers) raiseExclusive(t Token) Token {
	raise(&r.exclusive, t)
	if r.highest.Load() == forgotten { // so the floor may lack what was just raised
		return forgotten
	}
	return t
}

// raise makes both registers at least those of p.
func (r *registers) raise(p pair) {
	raise(&r.highest, p.highest)
	raise(&r.exclusive, p.exclusive)
}

// load returns both. The exclusive one is read first, and raised last, so it is never above the other.
func (r *registers) load() pair {
	exclusive := Token(r.exclusive.Load())
	return pair{exclusive, Token(r.highest.Load())}
}

// forget ends the entry and returns what its registers were. An admission that raises them afterwards learns that it is forgotten.
func (r *registers) forget() pair {
	highest := Token(r.highest.Swap(forgotten))
	return pair{Token(r.exclusive.Load()), highest}
}

// raise makes t the value of a register unless that is greater, and returns the value from then on, or forgotten.
func raise(register *atomic.Int64, t Token) Token {
	for {
		seen := register.Load()
		if seen == forgotten || seen >= int64(t) {
			return Token(seen)
		}
		if register.CompareAndSwap(seen, int64(t)) {
			return t
		}
	}
}

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
