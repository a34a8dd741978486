//go:build unix

package fleet

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// Readers says whether every other round of a worker is a reader's, under a shared lock, and by which
// registers the store judges it.
type Readers int

// The guard of a SharedStore has two registers. The same store has one if readers are judged as writers
// are, or if they register nothing.
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

// CheckReaders uses run to run a fleet of readers and writers with two registers, and force to run Force
// in each way. With two registers nothing may be wrong. With one register of tokens of either mode, one
// that holds is refused. With one of exclusive tokens, one reads what is overwritten later.
func CheckReaders(t *testing.T, run func() Result, force func(readers Readers) Result) {
	for _, two := range []Result{run(), force(TwoRegisters)} {
		if err := fencetest.Check(two.History); err != nil {
			t.Error(err)
		}
		if two.Lost+two.Needless+two.Stale > 0 {
			t.Errorf("with two registers: %v; lost: %q", two, two.Missing)
		}
	}
	for readers, faults := range map[Readers]func(Result) int{
		HighestOnly:   func(r Result) int { return r.Needless },
		ExclusiveOnly: func(r Result) int { return r.Stale },
	} {
		if one := force(readers); faults(one) != 1 || fencetest.Check(one.History) == nil {
			t.Errorf("with %v nothing was wrong either: %v", readers, one)
		}
	}
}

// CheckGuard uses run to run a fleet of writers with the guard, and force to run Force with and without
// it. With the guard nothing may be lost. Without it, the update of one that was overtaken is lost.
func CheckGuard(t *testing.T, run func() Result, force func(guard bool) Result) {
	for _, guarded := range []Result{run(), force(true)} {
		if err := fencetest.Check(guarded.History); err != nil {
			t.Error(err)
		}
		if guarded.Lost > 0 {
			t.Errorf("with the guard: %v; lost: %q", guarded, guarded.Missing)
		}
	}
	if bare := force(false); bare.Lost != 1 {
		t.Errorf("without the guard nothing was lost either: %v", bare)
	}
}
