package registry

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// Config bounds a Registry.
type Config struct {
	DefaultTTL, MinTTL, MaxTTL time.Duration // of a session
	Sessions                   int           // how many there may be

	// SessionsOf is how many sessions an identity may have. If it is nil, only Sessions bounds
	// them.
	SessionsOf func(identity string) int

	Locks int           // how many locks and waiters there may be, in all
	Keep  time.Duration // how long ended ones are remembered
}

// A Registry holds the sessions. See the package's comment for what it guarantees.
type Registry struct {
	cfg      Config
	sessions map[string]*session
	live     int            // the number of locks and positions
	each     map[string]int // the same, by identity
	now      clock.Instant  // when a method was last called
	effects  []Effect
	counts   Counts // except those that are counted on demand
	looked   int    // how often a loop has looked for what is due at a row
}

// A session is one client's session.
//
// Invariants: expiry never moves back, except when a provisional TTL is replaced. expired is set by the
// first call that finds that expiry has passed, and then no row is waiting or held. A later request
// clears expired, but restores no row. While the TTL is provisional, every row is a tombstone. Each row is
// in rows, and also in one of live, lost and gone. Before soon, nothing is due in
// the session; it is never after expiry.
type session struct {
	id       string
	identity string
	ttl      time.Duration
	expiry   clock.Instant
	expired  bool // it expired, and no request has come since
	ended    bool // its client ended it for good
	rows     map[string]*row
	live     map[string]*row
	lost     []*row // the oldest first
	gone     []*row // others that have ended, the oldest first
	most     int    // how many were live at a time, at most
	soon     clock.Instant

	// It is provisional if a Release opened it, so that ttl is the default until an Acquire, which
	// has one, sets it.
	provisional bool

	parks bool // its client wanted its last Renew to wait
}

// New makes an empty Registry.
func New(cfg Config, now clock.Instant) *Registry {
	return &Registry{cfg: cfg, sessions: make(map[string]*session), each: make(map[string]int), now: now}
}

// A Ref identifies a lock or a position by the client's session and its request (rule V6).
type Ref struct{ Session, Request string }

// An Effect is what to do about a lock or a position that no longer belongs to its client.
type Effect struct {
	Ref  Ref
	Kind Kind
	Why  error
}

// A Kind is the kind of an Effect.
type Kind uint8

const (
	Leave   Kind = iota + 1 // give up the position
	Forfeit                 // take away a lock that its client may have believed in; no release (rule V8)
	Return                  // release a lock that no answer listed
	Abandon                 // take away a lock that nobody believes in any more; no release either
)

// Effects returns the effects since the last call.
func (t *Registry) Effects() []Effect {
	fx := t.effects
	t.effects = nil
	return fx
}

// Open finds a session or opens it, for an Acquire, and counts its request (rule V1). If ttl is 0,
// the session keeps its TTL, or gets the default.
func (t *Registry) Open(id, identity string, ttl time.Duration, arrival, now clock.Instant) error {
	t.advance(now)
	s := t.session(id)
	switch {
	case s == nil || s.provisional && s.identity == identity:
		if ttl == 0 {
			ttl = t.cfg.DefaultTTL
		}
		if ttl < t.cfg.MinTTL || ttl > t.cfg.MaxTTL {
			return &Error{Invalid, fmt.Sprintf("ttl_ms is %d, want 0 or %d to %d", ttl.Milliseconds(), t.cfg.MinTTL.Milliseconds(), t.cfg.MaxTTL.Milliseconds())}
		}
	case ttl != 0 && s.identity == identity && ttl != s.ttl:
		return &Error{Invalid, fmt.Sprintf("ttl_ms is %d, the session was opened with %d", ttl.Milliseconds(), s.ttl.Milliseconds())}
	}
	s, err := t.open(s, id, identity, ttl)
	if err != nil {
		return err
	}
	if s.provisional && s.identity == identity { // nothing has been promised, so expiry may move back
		s.expiry, s.ttl, s.provisional = s.expiry.Add(ttl-s.ttl), ttl, false
		s.dueAt(s.expiry)
	}
	return t.renew(s, identity, arrival, now)
}

// OpenForRelease is Open for a Release, which has no TTL. A session that it opens gets its TTL from
// the first Acquire, which may come later.
func (t *Registry) OpenForRelease(id, identity string, arrival, now clock.Instant) error {
	t.advance(now)
	s := t.session(id)
	fresh := s == nil
	s, err := t.open(s, id, identity, t.cfg.DefaultTTL)
	if err != nil {
		return err
	}
	s.provisional = s.provisional || fresh
	return t.renew(s, identity, arrival, now)
}

// open returns s, or a new session if that is nil.
func (t *Registry) open(s *session, id, identity string, ttl time.Duration) (*session, error) {
	if s != nil {
		return s, nil
	}
	if err := t.room(identity); err != nil {
		return nil, err
	}
	s = &session{id: id, identity: identity, ttl: ttl, rows: make(map[string]*row), live: make(map[string]*row)}
	t.sessions[id] = s
	return s, nil
}

// Touch finds a session and counts its request (rule V1).
func (t *Registry) Touch(id, identity string, arrival, now clock.Instant) error {
	t.advance(now)
	s := t.session(id)
	if s == nil {
		return &Error{Unknown, "session is not known: Acquire opens one; one that ended or expired is forgotten after a while"}
	}
	return t.renew(s, identity, arrival, now)
}

// renew counts a request of s.
func (t *Registry) renew(s *session, identity string, arrival, now clock.Instant) error {
	switch {
	case s.identity != identity:
		return &Error{Denied, "session is another identity's"}
	case s.ended:
		return &Error{Ended, "session has ended: Release without request_ids ended it, or its process exited"}
	}
	if until := arrival.Add(s.ttl); s.expiry.Before(until) {
		s.expiry = until
	}
	if s.expired = !now.Before(s.expiry); s.expired {
		return &Error{Again, "the request was handled too late, call again"}
	}
	return nil
}

// TTL is the TTL of a session, or 0 if the session is not known.
func (t *Registry) TTL(id string) time.Duration {
	if s := t.sessions[id]; s != nil {
		return s.ttl
	}
	return 0
}

// Knows reports whether an identity has a session.
func (t *Registry) Knows(identity string) bool {
	for _, s := range t.sessions {
		if s.identity == identity && !s.ended {
			return true
		}
	}
	return false
}

// room makes room for a session of an identity, or returns an error if there is none. It counts
// the identity's sessions, because sessions are seldom opened.
func (t *Registry) room(identity string) error {
	of := 0
	for _, s := range t.sessions {
		if s.identity == identity && !s.expired && !s.ended {
			of++
		}
	}
	if t.cfg.SessionsOf != nil && of >= t.cfg.SessionsOf(identity) {
		return &Error{Full, fmt.Sprintf("this identity has %d sessions, and may have no more", of)}
	}
	if len(t.sessions) < t.cfg.Sessions {
		return nil
	}
	for _, s := range t.sessions {
		if s.expired || s.ended {
			t.drop(s)
		}
	}
	if len(t.sessions) < t.cfg.Sessions {
		return nil
	}
	return &Error{Full, fmt.Sprintf("there are %d sessions, and may be no more", len(t.sessions))}
}

func (t *Registry) drop(s *session) {
	if len(s.live) > 0 {
		return // the result of a release is still to be reported
	}
	delete(t.sessions, s.id)
}

// Counts are the numbers for metrics.
type Counts struct {
	Sessions, Held, Waiting int // current numbers
	Stalls                  int // how often pawld stalled
	Cut                     int // answers whose promise was shorter because of D
	Orphans                 int // locks that were released because no answer had listed them
	Expired                 int // locks taken from clients without a request for their TTL, or without a process
	Overheld                int // locks taken from clients that held them for longer than max_hold_ms
}

// Counts returns the current numbers.
func (t *Registry) Counts() Counts {
	c := t.counts
	for _, s := range t.sessions {
		if !s.expired && !s.ended {
			c.Sessions++
		}
		for _, r := range s.live {
			switch r.state {
			case Held:
				c.Held++
			case Waiting:
				c.Waiting++
			}
		}
	}
	return c
}

// An Error is the error of a refused request.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// A Code is the kind of a refusal.
type Code uint8

const (
	Invalid Code = iota + 1 // the request cannot be right
	Denied                  // it belongs to somebody else
	Unknown                 // there is no such session
	Ended                   // its client ended the session
	Full                    // a limit is reached
	Again                   // nothing is wrong with it, and it may be sent again
)
