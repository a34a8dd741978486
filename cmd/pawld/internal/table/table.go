package table

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// Config bounds a Table.
type Config struct {
	DefaultTTL, MinTTL, MaxTTL time.Duration // of a session
	Sessions                   int           // how many there may be

	// SessionsOf is how many sessions an identity may have; nil: as many as there may be.
	SessionsOf func(identity string) int

	Locks int           // how many locks and waiters there may be, in all
	Keep  time.Duration // how long what is over is remembered
}

// A Table holds the sessions. See the package's comment for what it guarantees.
type Table struct {
	cfg      Config
	sessions map[string]*session
	live     int            // locks and places
	each     map[string]int // of them, by identity
	looked   clock.Instant  // when anything was last done here
	effects  []Effect
	counts   Counts // but for those that are counted
}

// A session is one client's.
//
// Invariants: expiry never moves back; over is set by the first call that sees that expiry has
// passed, and then no row is waiting or held. over is cleared by a later request, which
// brings back no row.
type session struct {
	id       string
	identity string
	ttl      time.Duration
	expiry   clock.Instant
	over     bool // expired, and without a request since
	ended    bool // by its client; for good
	rows     map[string]*row
	past     []*row // those that have ended, the first one first
}

// New makes an empty Table.
func New(cfg Config, now clock.Instant) *Table {
	return &Table{cfg: cfg, sessions: make(map[string]*session), each: make(map[string]int), looked: now}
}

// A Ref names a lock, or a place: the client's session and its request (rule V6).
type Ref struct{ Session, Request string }

// An Effect is what is to be done about a lock or place that its client has no part in
// any more.
type Effect struct {
	Ref  Ref
	Kind Kind
	Why  error
}

// A Kind of Effect.
type Kind uint8

const (
	Leave   Kind = iota + 1 // its place
	Forfeit                 // a lock that its client may have believed in: no release (rule V8)
	Return                  // a lock that no answer listed: a release
)

// Effects are those that have come up since the last call.
func (t *Table) Effects() []Effect {
	fx := t.effects
	t.effects = nil
	return fx
}

// Open finds a session or opens it, and counts its request (rule V1). ttl 0: the one that
// it has, or else the default.
func (t *Table) Open(id, identity string, ttl time.Duration, arrival, now clock.Instant) error {
	t.look(now)
	s := t.session(id)
	if s == nil {
		if ttl == 0 {
			ttl = t.cfg.DefaultTTL
		}
		if ttl < t.cfg.MinTTL || ttl > t.cfg.MaxTTL {
			return &Error{Invalid, fmt.Sprintf("ttl_ms is %d, want 0 or %d to %d", ttl.Milliseconds(), t.cfg.MinTTL.Milliseconds(), t.cfg.MaxTTL.Milliseconds())}
		}
		if err := t.room(identity); err != nil {
			return err
		}
		s = &session{id: id, identity: identity, ttl: ttl, rows: make(map[string]*row)}
		t.sessions[id] = s
	}
	if ttl != 0 && s.identity == identity && ttl != s.ttl {
		return &Error{Invalid, fmt.Sprintf("ttl_ms is %d, the session was opened with %d", ttl.Milliseconds(), s.ttl.Milliseconds())}
	}
	return t.renew(s, identity, arrival, now)
}

// Touch finds a session and counts its request (rule V1).
func (t *Table) Touch(id, identity string, arrival, now clock.Instant) error {
	t.look(now)
	s := t.session(id)
	if s == nil {
		return &Error{Unknown, "session is not known: Acquire opens one; one that ended or expired is forgotten after a while"}
	}
	return t.renew(s, identity, arrival, now)
}

// renew counts a request of s.
func (t *Table) renew(s *session, identity string, arrival, now clock.Instant) error {
	switch {
	case s.identity != identity:
		return &Error{Denied, "session is another identity's"}
	case s.ended:
		return &Error{Ended, "session has ended: Release without request_ids ended it"}
	}
	if until := arrival.Add(s.ttl); s.expiry.Before(until) {
		s.expiry = until
	}
	if s.over = !now.Before(s.expiry); s.over {
		return &Error{Again, "the request was handled too late, call again"}
	}
	return nil
}

// TTL is that of a session, 0 where it is not known.
func (t *Table) TTL(id string) time.Duration {
	if s := t.sessions[id]; s != nil {
		return s.ttl
	}
	return 0
}

// room makes room for a session of an identity, or says that there is none. What an identity
// has is counted, for sessions are opened seldom.
func (t *Table) room(identity string) error {
	of := 0
	for _, s := range t.sessions {
		if s.identity == identity && !s.over && !s.ended {
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
		if s.over || s.ended {
			t.drop(s)
		}
	}
	if len(t.sessions) < t.cfg.Sessions {
		return nil
	}
	return &Error{Full, fmt.Sprintf("there are %d sessions, and may be no more", len(t.sessions))}
}

func (t *Table) drop(s *session) {
	if len(s.rows) > len(s.past) {
		return // what came of a release is still to be reported
	}
	delete(t.sessions, s.id)
}

// Counts are for metrics.
type Counts struct {
	Sessions, Held, Waiting int // as of now
	Stalls                  int // of pawld
	Cut                     int // answers whose promise D made shorter
	Orphans                 int // locks returned that no answer had listed
	Expired                 int // locks taken from clients that were silent for their TTL
	Overheld                int // locks taken from clients that held them for longer than max_hold_ms
}

// Counts counts.
func (t *Table) Counts() Counts {
	c := t.counts
	for _, s := range t.sessions {
		if !s.over && !s.ended {
			c.Sessions++
		}
		for _, r := range s.rows {
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

// An Error is a request that was refused.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// A Code says what kind of refusal it is.
type Code uint8

const (
	Invalid Code = iota + 1 // the request cannot be right
	Denied                  // it is another's
	Unknown                 // there is no such session
	Ended                   // its client ended the session
	Full                    // a limit is reached
	Again                   // nothing is wrong with it, and it may be sent again
)
