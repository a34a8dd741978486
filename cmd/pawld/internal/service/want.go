package service

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/lock"
)

// A Mode is the mode in which a name is acquired.
type Mode string

// These are the modes.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Election  Mode = "election"
	Semaphore Mode = "semaphore" // only for a single name, with Limit
)

// A Want is what to acquire: one name, or a set of names, of which all or none are held.
type Want struct {
	Names   []string
	Modes   []Mode        // one for each of Names; for a set, Exclusive or Shared
	Limit   int           `json:",omitempty"`
	Value   []byte        `json:",omitempty"`
	Try     bool          `json:",omitempty"`
	Owner   string        // written into the key
	MaxHold time.Duration // enforced by the registry; the engine does not know it
	Stall   time.Duration `json:",omitempty"` // enforced by the engine
}

// params are the parameters that a repeat must have in common with the request.
func (w Want) params() registry.Params {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // cannot happen: strings and numbers
	}
	return registry.Params{Text: string(text), More: len(w.Names) - 1, MaxHold: w.MaxHold, Stall: w.Stall}
}

// longest is how long it may be held at most before its client has said anything, or 0.
func (w Want) longest() time.Duration {
	if w.MaxHold == 0 || w.Stall > 0 && w.Stall < w.MaxHold {
		return w.Stall
	}
	return w.MaxHold
}

// namesOf are the names in the text of params.
func namesOf(text string) []string {
	var w Want
	_ = json.Unmarshal([]byte(text), &w) // a tombstone has none
	return w.Names
}

// A held is what was acquired, in one form for locks and terms. It implements registry.Holding.
type held struct {
	hooks.Keeper
	handle
	term *elect.Term // nil for a lock
	keys []string    // one for each name
	slot int         // of a semaphore; otherwise 0
	back func(ctx context.Context) error
	ask  chan struct{} // closed once its client asks whether it is wanted; nil for a term
}

// handle is the common interface of lock.Held and elect.Term.
type handle interface {
	Token() fencing.Token
	Err() error
	Done() <-chan struct{}
	Session() *pawl.Session
	Confirm(ctx context.Context) error
	Progress() error
}

func ofLock(h *lock.Held, err error) (*held, error) {
	if err != nil {
		return nil, err
	}
	return &held{Keeper: hooks.KeeperOfHeld(h), handle: h, keys: h.Keys(), slot: max(h.Slot(), 0), back: h.Release, ask: make(chan struct{})}, nil
}

func ofTerm(t *elect.Term) *held {
	return &held{Keeper: hooks.KeeperOfTerm(t), handle: t, term: t, keys: []string{t.Key()}, back: t.Resign}
}

// leavesRest reports whether a lost set leaves keys of its other names, which stay taken until
// they are released.
func (h *held) leavesRest() bool {
	return len(h.keys) > 1 && (errors.Is(h.Err(), lock.ErrKeyDeleted) || errors.Is(h.Err(), lock.ErrKeyOverwritten))
}

func (w Want) election() bool { return w.Modes[0] == Election }

// acquirer is a Multi or a Semaphore.
type acquirer interface {
	Acquire(ctx context.Context) (*lock.Held, error)
	TryAcquire(ctx context.Context) (*lock.Held, error)
}

// lock is the lock of all the names, for one name the same as lock.New's, or the semaphore.
func (w Want) lock(s pawl.Sessions) acquirer {
	if w.Modes[0] == Semaphore {
		return w.semaphore(s)
	}
	return w.multi(s)
}

func (w Want) multi(s pawl.Sessions) *lock.Multi {
	wants := make([]lock.Want, len(w.Names))
	for i, name := range w.Names {
		if wants[i] = lock.Exclusive(name); w.Modes[i] == Shared {
			wants[i] = lock.Shared(name)
		}
	}
	return lock.NewMulti(s, lock.Options{Owner: w.Owner, Stall: w.Stall}, wants...)
}

func (w Want) semaphore(s pawl.Sessions) *lock.Semaphore {
	return lock.NewSemaphore(s, w.Names[0], w.Limit, lock.Options{Owner: w.Owner, Stall: w.Stall})
}

func (w Want) electionOf(s pawl.Sessions) *elect.Election {
	return elect.New(s, w.Names[0], elect.Options{Owner: w.Owner, Stall: w.Stall})
}

// acquire waits until it is held.
func (w Want) acquire(ctx context.Context, s pawl.Sessions) (*held, error) {
	if w.election() {
		campaign := w.electionOf(s).Campaign
		if w.Try {
			campaign = w.electionOf(s).TryCampaign
		}
		t, err := campaign(ctx, w.Value)
		if err != nil {
			return nil, err
		}
		return ofTerm(t), nil
	}
	acquire := w.lock(s).Acquire
	if w.Try {
		acquire = w.lock(s).TryAcquire
	}
	return ofLock(acquire(ctx))
}

// resume takes over what a predecessor held.
func (w Want) resume(ctx context.Context, s pawl.Sessions, keys []string, t fencing.Token) (*held, error) {
	switch w.Modes[0] {
	case Semaphore:
		return ofLock(w.semaphore(s).Resume(ctx, keys[0], t))
	case Election:
		term, err := w.electionOf(s).Resume(ctx, keys[0], t)
		if err != nil {
			return nil, err
		}
		return ofTerm(term), nil
	}
	return ofLock(w.multi(s).Resume(ctx, keys, t))
}
