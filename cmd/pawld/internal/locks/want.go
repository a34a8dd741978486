package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/lock"
)

// A Mode is how a name is wanted.
type Mode string

// The modes.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Election  Mode = "election"
)

// A Want is what is asked for.
type Want struct {
	Names   []string
	Mode    Mode
	Value   []byte `json:",omitempty"`
	Try     bool   `json:",omitempty"`
	Owner   string // as it is written into the key
	Delay   time.Duration
	MaxHold time.Duration // the table's: the engine does not know of it
}

// params are what a repeat has to say again.
func (w Want) params() table.Params {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers
	}
	return table.Params{Text: string(text), MaxHold: w.MaxHold}
}

// namesOf are the names in the text of params.
func namesOf(text string) []string {
	var w Want
	_ = json.Unmarshal([]byte(text), &w) // a tombstone has none
	return w.Names
}

// A held is what was acquired, in one form for locks and terms. It implements
// table.Holding.
type held struct {
	inside.Keeper
	handle
	term *elect.Term // nil: a lock
	back func(ctx context.Context) error
}

// handle is what lock.Held and elect.Term have in common.
type handle interface {
	Key() string
	Token() fencing.Token
	Err() error
	Done() <-chan struct{}
	Session() *pawl.Session
	Confirm(ctx context.Context) error
}

func ofLock(h *lock.Held) *held {
	return &held{Keeper: inside.KeeperOfHeld(h), handle: h, back: h.Release}
}

func ofTerm(t *elect.Term) *held {
	return &held{Keeper: inside.KeeperOfTerm(t), handle: t, term: t, back: t.Resign}
}

func (w Want) mutex(s pawl.Sessions) *lock.Mutex {
	return lock.New(s, w.Names[0], lock.Options{Delay: w.Delay, Owner: w.Owner})
}

// acquire waits until it is held.
func (w Want) acquire(ctx context.Context, s pawl.Sessions) (*held, error) {
	if w.Mode == Election {
		campaign := elect.New(s, w.Names[0], elect.Options{}).Campaign
		if w.Try {
			campaign = elect.New(s, w.Names[0], elect.Options{}).TryCampaign
		}
		t, err := campaign(ctx, w.Value)
		if err != nil {
			return nil, err
		}
		return ofTerm(t), nil
	}
	m := w.mutex(s)
	acquire := m.Acquire
	switch {
	case w.Mode == Shared && w.Try:
		acquire = m.TryAcquireShared
	case w.Mode == Shared:
		acquire = m.AcquireShared
	case w.Try:
		acquire = m.TryAcquire
	}
	h, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return ofLock(h), nil
}

// resume takes over what a predecessor held.
func (w Want) resume(ctx context.Context, s pawl.Sessions, key string, t fencing.Token) (*held, error) {
	if len(w.Names) != 1 {
		return nil, fmt.Errorf("%d names", len(w.Names))
	}
	if w.Mode == Election {
		term, err := elect.New(s, w.Names[0], elect.Options{}).Resume(ctx, key, t)
		if err != nil {
			return nil, err
		}
		return ofTerm(term), nil
	}
	h, err := w.mutex(s).Resume(ctx, key, t)
	if err != nil {
		return nil, err
	}
	return ofLock(h), nil
}
