// Package model is the waiting algorithm as a small state machine, and an
// explorer that walks every interleaving of a few clients.
//
// The algorithm exists once in code, in internal/queue. Here it is written a second time,
// deliberately dumb, in the words of its rules: an enqueue whose answer may be lost and whose copy
// may be applied late, the transaction that settles it, the wait for the predecessor, the
// transaction that decides who owns, the release, which may be applied late, the handoff that it
// may put on the successor, the deadline and the expiry of a lease, and a takeover by another
// process. A client acquires a lock, exclusive or shared, or several names at once, or a permit of
// a semaphore. Explore visits every state that can be reached and checks in each:
//
//  1. Exclusion: of two clients that act on one name as holders, both are readers. No
//     two permits have one slot, and there are never more than the least limit of
//     those who hold one.
//  2. Tokens: an exclusive holder has a greater token than all who held before, a
//     reader a greater one than all exclusive holders before, and a permit a greater
//     one than all who held its slot before.
//  3. Honesty: a client that comes to believe that it holds has all its keys, and in
//     each of its queues no key that bars it stands before.
//  4. Storage: it refuses no holder, and admits no operation of a former holder after
//     one that conflicts with it and is newer.
//  5. No deadlock: there is no state in which a client waits and nothing happens
//     unless a client gives up, or stops.
//  6. No orphan: where nothing can happen any more, no key is left whose lease is
//     alive.
//  7. Delay, with LockDelay: after a hold that ended without its release, nobody comes
//     to hold the name, in a mode that conflicts, before the delay has passed.
//  8. Numbers, with Reuse: none is used again that an older use can still refuse or that
//     has its mark, and nobody holds a key that has the value of an older use.
//
// Rules switches off single rules, and every one of them is needed: without it Explore finds a
// history that breaks a property, and returns it.
package model

// These bound a model. They are small enough for all states to be walked, and large enough for a
// queue of three, for two names in one set, and for a name that is used again.
const (
	maxClients      = 3
	maxAcquisitions = 2
	maxKeys         = maxClients * maxAcquisitions
	maxNames        = 2
	maxSlots        = 2
)

// A Mode is the mode in which a name is acquired.
type Mode uint8

const (
	Not Mode = iota // the name is not wanted
	Exclusive
	Shared
	Permit // of a semaphore, which only the first name can be
)

// A Want is the mode in which one acquisition wants each name.
type Want [maxNames]Mode

// Wants of one name, and of both.
var (
	lock     = Want{Exclusive}
	reader   = Want{Shared}
	permit   = Want{Permit}
	second   = Want{Not, Exclusive}
	both     = Want{Exclusive, Exclusive}
	readBoth = Want{Shared, Shared}
	mixed    = Want{Exclusive, Shared}
)

// A Client is a goroutine that repeatedly acquires and releases.
type Client struct {
	Wants   []Want // of its acquisitions, one after the other
	Session int    // the number of its session, from 0
	Limit   int    // of its semaphore
}

// Rules are the parts of the algorithm that can be left out, to show that each is needed. The
// zero value leaves nothing out.
type Rules struct {
	ExpireEarly      bool // a lease may expire before its client's deadline has passed (T2)
	NoDeadline       bool // a holder does not compare the clock (T3)
	AbsenceSettles   bool // an enqueue that is not there is taken for never applied (A5, F8)
	NoCancelKey      bool // an enqueue does not compare its cancel key (A5)
	TrustEvent       bool // the predecessor is gone, so the key is first (A2)
	QueryOnce        bool // the key is not compared when the queue is read (A2)
	SilenceAnswers   bool // a server that timed out is taken to have executed or refused the enqueue (A5)
	ForgetEnqueue    bool // a lost answer is an error, and nothing is removed (A6)
	BlindDelete      bool // names are used again, and a release deletes by name (A1, R1)
	HandoffAhead     bool // a handoff is put before the key is deleted, not with it (A2)
	HandoffOnLeaving bool // a client that leaves the queue hands off, not only one that held (A2)

	ReaderIgnoresWriters bool // a shared key does not wait for exclusive ones (RW2)
	WriterIgnoresReaders bool // an exclusive key does not wait for shared ones (RW2)
	SharedHandsOff       bool // shared keys give and take handoffs (RW4)
	CountByForm          bool // a session counts its keys of one form, not by name (RW5)

	OutOfTurn  bool // each in the turnstile reads the slots, not only the first (SM2)
	BlindTake  bool // a take does not compare the slot (SM1)
	TakeTwice  bool // a take does not compare its key in the turnstile (SM1)
	OwnLimit   bool // a taker uses only its own limit (SM3)
	ForgetSlot bool // an undo deletes only the key in the turnstile (SM1)

	EnqueueInParts  bool // a set's keys are put in one transaction each (ML1)
	OneQueueDecides bool // a set holds when the one queue that it waited in admits it (ML3)
	OneKeyDecides   bool // one key of a set is compared when the queues are read (ML3)
	OneKeySettles   bool // one key of a set is read when its enqueue is settled (ML5)
	OneKeyUndone    bool // one key of a set is deleted when it is undone (ML5)
	FreeAtLoss      bool // at the loss of one name the others are deleted at once (ML6)
	SetTakesHandoff bool // a handoff of one name makes a set the owner (ML8)

	TieInBatch         bool // two enqueues of one name share a request (G2)
	ReleaseWithEnqueue bool // an enqueue shares a request with its predecessor's deletion (G2)

	HandleTwice    bool // a takeover does not compare the session key (N6)
	DetachGoesOn   bool // a session that was handed over continues to hold (N6, T4)
	HandleForgets  bool // a handle does not list what is not settled (N6)
	ResumedUnasked bool // a key in a handle is held without a query (N6, A2)

	LeaseWithoutDelay bool // a lease ends at its deadline, or is revoked there (LD1)
	FreeAtLimit       bool // a hold that lasted too long is deleted at once (LD2)
	CloseAtOnce       bool // a lease is revoked while keys on it are kept (LD3)
	HandleFrees       bool // a takeover deletes at once the keys that its predecessor kept (LD3)
	LateReleaseFrees  bool // a release after the loss of one name deletes the others at once (LD3)

	CopyIsAnswered   bool // an answer beside another copy that is known counts as an answer (C1, A1)
	ReuseDoubtful    bool // a number is used again after an enqueue whose answer was lost (A1)
	ReuseUnknown     bool // a number is used again after a deletion that found no key (A1)
	RemoveByName     bool // a removal does not compare the create revision (A1)
	ReleaseByName    bool // a copy of a release does not (A1)
	ReuseInherited   bool // a number is used again that a predecessor has used (A1)
	EntryByNumber    bool // a late call about an older acquisition finds the entry of a newer one (A1)
	FreeAtAnyTime    bool // a free number does not carry the revision at which it became free (A1)
	OlderValueIsOurs bool // a key that has an older value is held (A1)
	KeyIsRefusal     bool // an enqueue that finds a key under its name leaves it (A1)
	PredByName       bool // a predecessor's key counts as the same, whatever its create revision (A3)
	ReuseAround      bool // an enqueue reads around the session's keys (RW5)

	NewestOnly    bool // storage keeps one register, of the highest token (K2)
	ExclusiveOnly bool // storage keeps one register, of the highest exclusive token (K2)
}

// Config is what to explore.
type Config struct {
	Clients    []Client
	Deletes    int  // how many keys of waiting clients an operator deletes
	Losses     int  // how many keys of holders an operator deletes
	Takeovers  bool // a session may be handed over to another process once
	NoSpace    bool // the answer to an enqueue may be that the disk is full, applied or not
	Batches    bool // two writes may share a request, as G2 allows it
	NoHandoffs bool // nobody hands off, as in an election
	LockDelay  bool // sessions have a lock-delay, and a hold may last too long; not with permits
	Storage    bool // holders use a storage that keeps registers for the first name
	Reuse      bool // a number is used again when it is clean; a client's Wants are alike, and of the first name
	Copies     int  // with Reuse, how many enqueues have a second copy, which the client may know of or not
	Restores   int  // with Reuse, how often a snapshot is restored that has an older key
	Rules      Rules
	Exact      bool // revisions are kept, and not replaced by their ranks
}

// alike returns n clients, each with a separate session and the same wants.
func alike(n int, wants ...Want) (all []Client) {
	for i := range n {
		all = append(all, Client{Wants: wants, Session: i})
	}
	return all
}

// each returns clients with one acquisition each, each with a separate session.
func each(wants ...Want) (all []Client) {
	for i, w := range wants {
		all = append(all, Client{Wants: []Want{w}, Session: i})
	}
	return all
}

// limited returns clients that want one permit each, with these limits.
func limited(limits ...int) (all []Client) {
	for i, l := range limits {
		all = append(all, Client{Wants: []Want{permit}, Session: i, Limit: l})
	}
	return all
}

// pc is the phase of a client.
type pc uint8

const (
	idle      pc = iota
	enqueuing    // the enqueue was sent
	settling     // its answer is no longer expected
	waiting      // for its predecessor
	querying     // the predecessor may be gone
	taking       // first in the turnstile, and a take was sent
	full         // first in the turnstile, and no slot is free
	held
	winding   // lost in part, and what it ran under the lock still returns
	releasing // the delete was sent
	undoing   // a failed acquisition is being removed in the background
	handed    // its session was handed over, and nobody has resumed it yet
	done      // all acquisitions made
	dead      // the session has ended
)

// key is an acquisition, client*maxAcquisitions+nth, plus one. 0 is none. It has one key, of one
// name, in each queue that it stands in.
type key uint8

// names is a set of names, or of slots, with a bit for each.
type names uint8

func (m names) has(n int) bool { return m&(1<<n) != 0 }

// answer is the server's answer to an enqueue, or to a take.
type answer struct {
	there  bool
	ok     bool
	missed names // those predecessors were deleted by the same request
	pred   [maxNames]key
}

// client is one goroutine.
type client struct {
	pc        pc
	nth       uint8 // of its acquisitions, from 0
	in        uint8 // the name that it waits in
	pred      key   // the key that it waits for there
	missed    bool  // the watch of pred begins after its deletion
	token     uint8
	next      successors // its successors, as far as they are known
	lost      names      // whose keys an operator has deleted, of one that holds
	slot      uint8      // that it tries to take, or has
	tried     names      // the slots that it may have taken
	around    bool       // its enqueue reads around its session's keys
	overtaken bool       // another of its session has sent an enqueue since
	was       bool       // it held when it was handed over
	handles   uint8      // when it was handed over, copies of the handle that nobody has used
	twin      bool       // another process believes that it holds, too
	used      bool       // its operation has reached the storage
	old       uint8      // the token of a hold that has ended, and whose operation is under way
	number    numbers
	sure      bool // with Reuse, the enqueue was answered as applied
	copied    bool // its enqueue was sent twice, and it knows that
	inherited bool // its enqueue was a predecessor's
	second    bool // a second release of its older acquisition has paused
	got       answer
}

// session is a lease and its client's view of it.
type session struct {
	valid bool // as its clock says
	alive bool // as the server says: the lease exists
	taken bool // it was taken over
}

// successors are keys that follow one another in a queue.
type successors [maxClients - 1]key

func (h successors) rest() successors {
	copy(h[:], h[1:])
	h[len(h)-1] = 0
	return h
}

// late is how many copies of a release are under way, and to whom they hand off.
type late struct {
	copies uint8 // 0 or 1
	next   successors
	rev    uint8 // with Reuse, the create revision that is compared; 0 if it deletes by name
}

// handoff is what a release puts on the successor's key.
type handoff struct {
	by   key
	next successors
}

// queue is the keys of one name, in the order of their creation.
type queue struct {
	line    [maxKeys]key
	created [maxKeys]uint8
	n       uint8 // of line
}

// kept is what a hold leaves that ended without its release. Nobody else may hold its names until
// the delay has passed, because its writes may still be under way.
type kept struct {
	of  names
	why cause
}

// cause is why a hold ended without its release.
type cause uint8

const (
	sessionEnded cause = iota + 1 // its session's validity, here
	heldTooLong
	lostInPart
)

// slot is a key of a semaphore.
type slot struct {
	of      key
	created uint8
}

// highest are the highest token of exclusive ones, and of any.
type highest struct{ exclusive, any uint8 }

// state is everything there is; it is comparable.
type state struct {
	clients  [maxClients]client
	sessions [maxClients]session
	queues   [maxNames]queue
	slots    [maxSlots]slot
	rev      uint8
	cancel   [maxKeys + 1]bool    // cancel keys, by acquisition
	inFlight [maxKeys + 1]names   // the names of enqueues under way
	takes    [maxKeys + 1]names   // the slots of takes under way
	releases [maxKeys + 1]late    // copies of releases under way
	handoffs [maxKeys + 1]handoff // on keys that are there
	past     [maxKeys + 1]past    // what older uses of a number have left
	copies   uint8                // second copies of enqueues that were sent
	restores uint8                // snapshots that were restored
	tokens   [maxNames]highest    // held so far
	permits  [maxSlots]uint8      // tokens of permits held so far
	storage  highest              // what the storage has admitted
	kept     [maxKeys + 1]kept    // holds that ended without a release, whose delay has not passed
	mishaps  uint8                // keys of waiters that an operator has deleted
	losses   uint8                // keys of holders that an operator has deleted
}

func (c Config) start() state {
	var s state
	for i := range s.clients {
		s.clients[i].pc = done
		if i < len(c.Clients) {
			s.clients[i].pc = idle
			s.sessions[c.Clients[i].Session] = session{valid: true, alive: true}
		}
	}
	return s
}

// key is client i's present acquisition.
func (c Config) key(s *state, i int) key {
	a := s.clients[i].nth
	switch {
	case c.Rules.BlindDelete:
		a = 0
	case c.Reuse:
		a = s.clients[i].number.now
	}
	return key(i*maxAcquisitions+int(a)) + 1
}

// owner is the client that a key belongs to.
func (k key) owner() int { return int(k-1) / maxAcquisitions }

// session is the number of the session whose a key is.
func (c Config) session(k key) int { return c.Clients[k.owner()].Session }

// want is what acquisition k wants.
func (c Config) want(k key) Want {
	if all := c.Clients[k.owner()].Wants; int(k-1)%maxAcquisitions < len(all) {
		return all[int(k-1)%maxAcquisitions]
	}
	return Want{}
}

// names are those that k wants.
func (c Config) names(k key) (m names) {
	for n, mode := range c.want(k) {
		if mode != Not {
			m |= 1 << n
		}
	}
	return m
}

// isPermit reports whether k is a semaphore's.
func (c Config) isPermit(k key) bool { return c.want(k)[0] == Permit }

// handsOff reports whether k gives and takes handoffs, which it does if it is exclusive, of one
// name (RW4, ML8).
func (c Config) handsOff(k key) bool {
	switch w := c.want(k); {
	case c.isPermit(k), c.NoHandoffs:
		return false
	case w[0] != Not && w[1] != Not:
		return c.Rules.SetTakesHandoff
	case w[0] == Shared || w[1] == Shared:
		return c.Rules.SharedHandsOff
	}
	return true
}

// limit is the limit of k's semaphore.
func (c Config) limit(k key) int { return c.Clients[k.owner()].Limit }

// conflict reports whether two modes of one name exclude one another.
func conflict(a, b Mode) bool { return a != Shared || b != Shared }

// bars reports whether e waits for f if f is before it in the queue of name n. The turnstile of a
// semaphore is a separate queue.
func (c Config) bars(f, e key, n int) bool {
	a, b := c.want(f)[n], c.want(e)[n]
	switch {
	case b == Permit && a != Permit, b == Shared && c.Rules.ReaderIgnoresWriters, a == Shared && b == Exclusive && c.Rules.WriterIgnoresReaders:
		return false
	}
	return conflict(a, b)
}

// at is the position of k in the queue, or -1 if it is not there.
func (q *queue) at(k key) int {
	for i := range int(q.n) {
		if q.line[i] == k {
			return i
		}
	}
	return -1
}

func (q *queue) remove(i int) {
	copy(q.line[i:q.n], q.line[i+1:q.n])
	copy(q.created[i:q.n], q.created[i+1:q.n])
	q.n--
	q.line[q.n], q.created[q.n] = 0, 0
}

func (q *queue) add(k key, rev uint8) {
	q.line[q.n], q.created[q.n] = k, rev
	q.n++
}
