package session

import "time"

// A Claim is a key on the session's lease: a place in a queue, or what is held.
// Its methods are called without any of the session's locks held, and must not
// block.
type Claim interface {
	// Keys are what a look asks for: the claim's own key and, while it waits,
	// the key before it; "" for one not to be asked for. A claim without an own
	// key is not looked at.
	Keys() (own, before string)
	// Saw tells what a linearizable read at revision rev, sent after Keys was
	// called, showed of them.
	Saw(rev int64, own, before Seen)
	// Arm tells that the arming delay has passed.
	Arm()
	// End tells, once, that the session is over.
	End(cause error)
}

// Seen is what a keys-only read showed of one key; zero: it was not there, or
// not asked for.
type Seen struct{ Create, Mod int64 }

// A Hook is a claim's place in its session's lists, kept inside the claim so
// that a claim costs the session no allocation. Its fields are guarded by the
// session's mutex.
type Hook struct {
	claim      Claim
	prev, next *Hook
	in         *ring
}

// ring is a list of hooks in the order in which they are to be looked at.
type ring struct {
	first, last *Hook
	n           int
}

func (r *ring) push(h *Hook) {
	h.in, h.prev, h.next = r, r.last, nil
	if r.last == nil {
		r.first = h
	} else {
		r.last.next = h
	}
	r.last = h
	r.n++
}

func (r *ring) drop(h *Hook) {
	if h.in != r {
		return
	}
	if h.prev == nil {
		r.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		r.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	h.in, h.prev, h.next = nil, nil, nil
	r.n--
}

// take empties r and returns its claims.
func (r *ring) take() []Claim {
	claims := make([]Claim, 0, r.n)
	for r.first != nil {
		h := r.first
		r.drop(h)
		claims = append(claims, h.claim)
	}
	return claims
}

// Wait adds c, which acquires or waits, to what hangs on the session. The error
// says why the session is over.
func (s *Session) Wait(h *Hook, c Claim) error { return s.add(h, c, &s.waiting, 0) }

// Hold adds c, whose attempt was n, or moves it from the waiting ones: it is
// held from now on, and so it is what a Detach leaves to a successor.
func (s *Session) Hold(h *Hook, c Claim, n int64) error { return s.add(h, c, &s.holding, n) }

// add puts c into a list; held is the number of an entry that is won with it.
func (s *Session) add(h *Hook, c Claim, to *ring, held int64) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.over.Load(); e != nil {
		return e.err
	}
	h.claim = c
	if h.in != nil {
		h.in.drop(h)
	}
	to.push(h)
	if held != 0 {
		s.ledger.move(held, won, "")
	}
	return nil
}

// Drop takes a claim off the session; it is told nothing more, but for what a
// look that is under way shows.
func (s *Session) Drop(h *Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.in != nil {
		h.in.drop(h)
	}
}

// ArmDelay is how long after its acquisition the watch of a lock's own key is
// opened: a lock held for less needs none. The watch starts at the
// acquisition's revision and so misses nothing.
const ArmDelay = 50 * time.Millisecond

// armed is a claim to be armed at a time.
type armed struct {
	hook *Hook
	at   time.Time
}

// ArmLater has the claim of h armed after ArmDelay, unless it is dropped before.
func (s *Session) ArmLater(h *Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() != nil {
		return // nobody would take it off the list
	}
	s.arming = append(s.arming, armed{h, time.Now().Add(ArmDelay)})
	if len(s.arming) == 1 {
		s.armer.Reset(ArmDelay)
	}
}

// arm arms the claims that are due at now and returns when the next is; the
// zero Time: none. Those that were dropped are passed over, due or not, so that a
// burst of short holds does not wake the loop for each.
func (s *Session) arm(now time.Time) time.Time {
	var due []Claim
	s.mu.Lock()
	i := 0
	for ; i < len(s.arming); i++ {
		h := s.arming[i].hook
		if h.in == nil {
			continue
		}
		if s.arming[i].at.After(now) {
			break
		}
		due = append(due, h.claim)
	}
	s.arming = append(s.arming[:0], s.arming[i:]...)
	clear(s.arming[len(s.arming):cap(s.arming)])
	var next time.Time
	if len(s.arming) > 0 {
		next = s.arming[0].at
	}
	s.mu.Unlock()

	for _, c := range due {
		c.Arm()
	}
	return next
}
