//go:build unix

package fleet

import (
	"context"
	"errors"

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
