//go:build unix

package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// Readers says whether every other turn of a worker is that of a reader, under a shared lock, and by which registers the store judges it.
type Readers int

// The guard of a SharedStore has two registers. The same store has one where readers are judged as writers are, or where they register nothing.
const (
	NoReaders Readers = iota
	TwoRegisters
	HighestOnly   // one register, of tokens of either mode
	ExclusiveOnly // one register, of exclusive tokens
)

// String says which registers they are.
func (r Readers) String() string {
	return [...]string{"no readers", "two registers", "one register, of tokens of either mode", "one register, of exclusive tokens"}[r]
}

// A SharedStore is a Store for readers, too.
type SharedStore interface {
	Store
	fencetest.SharedStore
}

// store returns the store as a worker is to use it. bare opens one without a guard.
func (r Readers) store(s Store, bare func() (Store, error)) (Store, error) {
	switch r {
	case TwoRegisters:
		if _, ok := s.(SharedStore); !ok {
			return nil, errors.Join(errors.New("fleet: the store has no readers"), s.Close())
		}
	case HighestOnly:
		return highestOnly{s}, nil
	case ExclusiveOnly:
		b, err := bare()
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return exclusiveOnly{s, b}, nil
	}
	return s, nil
}

type highestOnly struct{ Store }

func (s highestOnly) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.Read(ctx, resource, t)
}

type exclusiveOnly struct {
	Store
	bare Store
}

func (s exclusiveOnly) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.bare.Read(ctx, resource, t)
}

func (s exclusiveOnly) Close() error { return errors.Join(s.Store.Close(), s.bare.Close()) }

// retries is how many runs with other seeds, each twice as long as the one before, may follow one that has shown nothing.
const retries = 4

// CheckReaders has run run fleets of readers and writers, from seed or, if it is 0, from one at random. With two registers nothing may be wrong. With one, of tokens of
// either mode, some that hold must be refused; with one of exclusive tokens, some must read what is overwritten behind them.
func CheckReaders(t *testing.T, seed uint64, least time.Duration, run func(readers Readers, seed uint64, least time.Duration) Result) {
	if seed == 0 {
		seed = rand.Uint64()
	}
	two := run(TwoRegisters, seed, least)
	if err := fencetest.Check(two.History); err != nil {
		t.Error(err)
	}
	if two.Lost+two.Needless+two.Stale > 0 {
		t.Errorf("with two registers: %v; lost: %q", two, two.Missing)
	}
	for readers, faults := range map[Readers]func(Result) int{
		HighestOnly:   func(r Result) int { return r.Needless },
		ExclusiveOnly: func(r Result) int { return r.Stale },
	} {
		one := run(readers, seed, least)
		for more := uint64(1); faults(one) == 0 && more <= retries; more++ { // a short run may be lucky
			one = run(readers, seed+more, least<<more)
		}
		if faults(one) == 0 || fencetest.Check(one.History) == nil {
			t.Errorf("with %v nothing was wrong either, so that this test shows nothing: %v", readers, one)
		}
	}
}
