// Package model is the waiting algorithm as a small state machine, and an
// explorer that walks every interleaving of a few clients.
//
// The algorithm exists once in code, in internal/queue; here it is written a
// second time, deliberately dumb, in the words of its rules: an enqueue whose
// answer may be lost and whose copy may be applied late, the transaction that
// settles it, the wait for the key before, the transaction that decides who
// owns, the release, which may be applied late, the grant that it may put on the
// next key, the deadline and the expiry of a lease. Explore visits every state
// that can be reached and checks in each:
//
//  1. Exclusion: at most one client believes that it holds.
//  2. Tokens: whoever comes to hold has a greater token than all who held before.
//  3. Honesty: whoever comes to believe that it holds is first in the line.
//  4. No deadlock: where nothing can happen any more, every client has come to
//     its end.
//  5. No orphan: there, no key is left in the line whose lease is alive.
//
// Rules switches single rules off, and every one of them is needed: without it
// Explore finds a history that breaks a property, and returns it.
package model

// The bounds of a model: small enough to be walked, large enough for a queue of
// three and a name that is used again.
const (
	maxClients  = 3
	maxAttempts = 2
	maxKeys     = maxClients * maxAttempts
)

// Rules are the parts of the algorithm that can be left out, to see that they
// are needed. The zero value leaves nothing out.
type Rules struct {
	ExpireEarly    bool // a lease may expire before its client's deadline has passed (T2)
	NoDeadline     bool // a holder does not look at the clock (T3)
	AbsenceSettles bool // an enqueue that is not there is taken for never applied (A5, F8)
	NoCancelKey    bool // an enqueue does not compare its cancel key (A5)
	TrustEvent     bool // the key before is gone, so the own one is first (A2)
	AskOnce        bool // the own key is not compared when the line is read (A2)
	ForgetEnqueue  bool // a lost answer is an error, and nothing is removed (A6)
	BlindDelete    bool // names are used again, and a release deletes by name (A1, R1)
	GrantAhead     bool // a grant is put before the own key is deleted, not with it (A2)
	GrantOnLeaving bool // whoever leaves the line grants, not only who held (A2)
}

// Config is what is explored.
type Config struct {
	Clients  int // 1 to 3
	Attempts int // of each client: 1 or 2
	Deletes  int // how many keys of waiting clients an operator deletes
	Rules    Rules
	Exact    bool // revisions are kept as they are, not replaced by their ranks
}

// pc is where a client is.
type pc uint8

const (
	idle      pc = iota
	enqueuing    // the enqueue was sent
	settling     // its answer is not waited for any more
	waiting      // for the key before
	asking       // the key before may be gone
	held
	releasing // the delete was sent
	undoing   // a failed attempt is being removed behind
	done      // all attempts made
	dead      // the session is over
)

// key is an attempt's key: client*maxAttempts+attempt, plus one; 0 is none.
type key uint8

// answer is the server's to an enqueue.
type answer struct {
	there bool
	ok    bool
	pred  key
}

// client is one session with one goroutine.
type client struct {
	pc      pc
	attempt uint8
	valid   bool // its own clock's word
	alive   bool // the server's: the lease exists
	pred    key
	token   uint8
	heirs   heirs  // who stands behind, as far as it is known
	got     answer // in flight
}

// heirs are keys that stand behind one another in the line.
type heirs [maxClients - 1]key

func (h heirs) rest() heirs {
	copy(h[:], h[1:])
	h[len(h)-1] = 0
	return h
}

// late is how many copies of a release are under way, and to whom they grant.
type late struct {
	copies uint8 // 0 or 1
	heirs  heirs
}

// grant is what a release puts on the next key.
type grant struct {
	by    key
	heirs heirs
}

// state is everything there is; it is comparable.
type state struct {
	clients  [maxClients]client
	line     [maxKeys]key // the keys that exist, in the order of their creation
	created  [maxKeys]uint8
	n        uint8 // of line
	rev      uint8
	cancel   [maxKeys + 1]bool  // cancel keys, by key
	inFlight [maxKeys + 1]uint8 // copies of enqueues under way
	releases [maxKeys + 1]late  // copies of releases under way
	grants   [maxKeys + 1]grant // on keys that are there
	highest  uint8              // of the tokens held so far
	mishaps  uint8              // keys that an operator has deleted
}

func (c Config) start() state {
	var s state
	for i := range s.clients {
		s.clients[i].pc = done
		if i < c.Clients {
			s.clients[i] = client{pc: idle, valid: true, alive: true}
		}
	}
	return s
}

// key is the name of client i's present attempt.
func (c Config) key(s *state, i int) key {
	a := s.clients[i].attempt
	if c.Rules.BlindDelete {
		a = 0
	}
	return key(i*maxAttempts+int(a)) + 1
}

// owner is the client that a key belongs to.
func (k key) owner() int { return int(k-1) / maxAttempts }

// at is where k stands in the line; -1: nowhere.
func (s *state) at(k key) int {
	for i := range int(s.n) {
		if s.line[i] == k {
			return i
		}
	}
	return -1
}

func (s *state) remove(i int) {
	s.grants[s.line[i]] = grant{}
	copy(s.line[i:s.n], s.line[i+1:s.n])
	copy(s.created[i:s.n], s.created[i+1:s.n])
	s.n--
	s.line[s.n], s.created[s.n] = 0, 0
}

func (s *state) add(k key) {
	s.rev++
	s.line[s.n], s.created[s.n] = k, s.rev
	s.n++
}

// behind are the keys behind position i.
func (s *state) behind(i int) (h heirs) {
	copy(h[:], s.line[i+1:s.n])
	return h
}

// before is the key just before position i; 0: it is first.
func (s *state) before(i int) key {
	if i == 0 {
		return 0
	}
	return s.line[i-1]
}
