package model

import (
	"fmt"
	"hash/maphash"
)

// A Violation is a history that breaks a property.
type Violation struct {
	Property string
	History  []string
}

// Error returns the property and the steps that broke it.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s, after %d steps: %q", v.Property, len(v.History), v.History)
}

// A frontier is the states that were reached and not walked yet: a stack if it is deep, and otherwise a queue. No
// other states are kept, because they are what fills a machine's memory.
type frontier struct {
	deep       bool
	now, later []reached
	at         int // in now
}

// reached is a state and its number.
type reached struct {
	s  state
	at int32
}

func (f *frontier) add(r reached) { f.later = append(f.later, r) }

// next removes and returns one. ok is false if there is none.
func (f *frontier) next() (r reached, ok bool) {
	if last := len(f.later) - 1; f.deep && last >= 0 {
		r, f.later = f.later[last], f.later[:last]
		return r, true
	}
	if f.at == len(f.now) {
		f.now, f.later, f.at = f.later, f.now[:0], 0
	}
	if f.at == len(f.now) {
		return r, false
	}
	f.at++
	return f.now[f.at-1], true
}

// origin is how a state was first reached: the earlier state, and the number of the step.
type origin struct {
	from int32
	step uint8
}

// fingerprints stand for the states that were visited. They have 128 bits each, so that among some
// millions two share one with a probability below 1e-24.
type fingerprints[S comparable] struct {
	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
}

func newFingerprints[S comparable]() *fingerprints[S] {
	return &fingerprints[S]{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64]struct{}{}}
}

// add reports whether s is new.
func (f *fingerprints[S]) add(s *S) bool {
	of := [2]uint64{maphash.Comparable(f.seeds[0], *s), maphash.Comparable(f.seeds[1], *s)}
	if _, ok := f.seen[of]; ok {
		return false
	}
	f.seen[of] = struct{}{}
	return true
}

// Explore walks every reachable state, shortest histories first, and returns how many there
// are, and the first violation.
func Explore(c Config) (states int, found *Violation) { return c.explore(false) }

// Hunt returns a violation by following the last of the steps from a state first. If there is a
// violation, Hunt finds it in fewer states than Explore needs, by a longer history.
func Hunt(c Config) *Violation {
	_, found := c.explore(true)
	return found
}

func (c Config) explore(deep bool) (states int, found *Violation) {
	seen := newFingerprints[state]()
	start := c.start()
	seen.add(&start)
	came := []origin{{}}
	history := func(at int32, last string) []string { return c.history(start, came, at, last) }
	ahead := frontier{deep: deep}
	ahead.add(reached{s: start})
	for {
		r, ok := ahead.next()
		if !ok {
			return len(came), nil
		}
		s, at := r.s, r.at
		steps := c.steps(&s)
		goesOn := false
		for i, st := range steps {
			if st.bad != "" {
				return len(came), &Violation{st.bad, history(at, st.name)}
			}
			goesOn = goesOn || !st.may && st.to != s
			if seen.add(&st.to) {
				ahead.add(reached{st.to, int32(len(came))})
				came = append(came, origin{at, uint8(i)})
			}
		}
		if !goesOn {
			if bad := s.unfinished(c); bad != "" {
				return len(came), &Violation{bad, history(at, "")}
			}
		}
	}
}

// history is the steps to state number at, and the step after it. It takes the steps again from
// the start.
func (c Config) history(s state, came []origin, at int32, last string) (names []string) {
	var taken []uint8
	for ; at > 0; at = came[at].from {
		taken = append(taken, came[at].step)
	}
	for i := len(taken) - 1; i >= 0; i-- {
		st := c.steps(&s)[taken[i]]
		names, s = append(names, st.name), st.to
	}
	if last != "" {
		names = append(names, last)
	}
	return names
}

// believes reports whether client i would report that it holds.
func (s *state) believes(i int, c Config) bool {
	return s.clients[i].pc == held && (s.sessions[c.Clients[i].Session].valid || c.Rules.NoDeadline)
}

// acts returns the names on which client i acts as a holder, because it believes that it holds, or
// has learned of a loss and is still winding up. Names that an operator has taken are left out.
func (s *state) acts(i int, c Config) names {
	me := &s.clients[i]
	if !s.believes(i, c) && (me.pc != winding || !s.sessions[c.Clients[i].Session].valid) {
		return 0
	}
	return c.names(c.key(s, i)) &^ me.lost
}

// broken returns the property that s, reached from was, breaks, and records the tokens that
// were held.
func (s *state) broken(was *state, c Config) string {
	var acts [maxClients]names
	for i := range c.Clients {
		acts[i] = s.acts(i, c)
		me := &s.clients[i]
		if !s.believes(i, c) || was.clients[i].pc == held {
			continue // if its deadline has passed, it notices that before it reports anything
		}
		if bad := s.begins(c, me, c.key(s, i)); bad != "" {
			return bad
		}
	}
	for i := range c.Clients {
		if s.clients[i].twin && acts[i] != 0 {
			return "two processes believe to hold one key"
		}
		for j := range i {
			both := acts[i] & acts[j]
			for n := range s.queues {
				if both.has(n) && !s.together(c, i, j, n) {
					return "two believe to hold"
				}
			}
		}
	}
	if s.crowded(c, acts) {
		return "more hold than one of them agreed to"
	}
	return ""
}

// begins checks client me, which begins to believe that it holds k, and records its tokens.
func (s *state) begins(c Config, me *client, k key) string {
	s.kept[k] = kept{} // a hold that is resumed continues
	if c.isPermit(k) {
		if s.slots[me.slot] != (slot{k, me.token}) {
			return "somebody believes to have a slot that is not its own"
		}
		if !me.was && me.token <= s.permits[me.slot] {
			return "a token was not greater than those before"
		}
		s.permits[me.slot] = me.token
		return ""
	}
	for n, mode := range c.want(k) {
		if mode == Not {
			continue
		}
		q := &s.queues[n]
		at := q.at(k)
		if at < 0 || q.created[at] != me.token && !c.Rules.EnqueueInParts {
			return "somebody believes to hold whose key is not there"
		}
		if s.past[k].came {
			return "somebody believes to hold whose key has the value of an older acquisition"
		}
		for f, kept := range s.kept {
			if key(f) != k && kept.of.has(n) && conflict(c.want(key(f))[n], mode) {
				return "a hold began before the delay after another had passed"
			}
		}
		for _, f := range q.line[:at] {
			if conflict(c.want(f)[n], mode) {
				return "somebody believes to hold who is not first"
			}
		}
		high := &s.tokens[n]
		if !me.was && (me.token <= high.exclusive || mode == Exclusive && me.token <= high.any) {
			return "a token was not greater than those before"
		}
		high.any = max(high.any, me.token)
		if mode == Exclusive {
			high.exclusive = me.token
		}
	}
	return ""
}

// together reports whether clients i and j may both hold name n.
func (s *state) together(c Config, i, j, n int) bool {
	a, b := c.want(c.key(s, i))[n], c.want(c.key(s, j))[n]
	if a == Permit && b == Permit {
		return s.clients[i].slot != s.clients[j].slot
	}
	return !conflict(a, b)
}

// crowded reports whether more clients have a permit than the least limit among them.
func (s *state) crowded(c Config, acts [maxClients]names) bool {
	holders, least := 0, maxSlots
	for i := range c.Clients {
		if k := c.key(s, i); acts[i] != 0 && c.isPermit(k) {
			holders++
			least = min(least, c.limit(k))
		}
	}
	return holders > least
}

// unfinished returns what is wrong with a state in which nothing happens any more.
func (s *state) unfinished(c Config) string {
	if s.foreign() {
		return ""
	}
	for i := range c.Clients {
		if p := s.clients[i].pc; p != done && p != dead {
			return "deadlock"
		}
	}
	for k := key(1); int(k) <= len(c.Clients)*maxAcquisitions; k++ {
		if !s.sessions[c.session(k)].alive {
			continue
		}
		for n := range s.queues {
			if s.queues[n].at(k) >= 0 {
				return "an orphan key is left"
			}
		}
		if s.slotOf(k) >= 0 {
			return "an orphan slot is left"
		}
	}
	return ""
}
