package blobfence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// guarded is a Fence as the suite wants it.
type guarded struct{ blobfence.Fence }

func (g guarded) Read(ctx context.Context, name string, t fencing.Token) (string, error) {
	return read(g.Fence.Read(ctx, name, t))
}

func (g guarded) ReadShared(ctx context.Context, name string, t fencing.Token) (string, error) {
	return read(g.Fence.ReadShared(ctx, name, t))
}

func read(body []byte, err error) (string, error) {
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (g guarded) Write(ctx context.Context, name string, t fencing.Token, value string) error {
	return g.Fence.Write(ctx, name, t, []byte(value))
}

func peek(ctx context.Context, s fencetest.Store, name string) (string, error) {
	body, _, _, err := s.(guarded).Store.Get(ctx, name)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

// losing loses the answer of the first Put.
type losing struct {
	blobfence.Store
	lost bool
}

func (l *losing) Put(ctx context.Context, name string, body []byte, m blobfence.Meta, at blobfence.Version) error {
	err := l.Store.Put(ctx, name, body, m, at)
	if err == nil && !l.lost {
		l.lost = true
		return errReset
	}
	return err
}

func suite(open func(t *testing.T) blobfence.Store, again func(blobfence.Store) blobfence.Store) fencetest.Suite {
	return fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store { return guarded{blobfence.Fence{Store: open(t)}} },
		Join: func(_ *testing.T, s fencetest.Store) fencetest.Store {
			return guarded{blobfence.Fence{Store: again(s.(guarded).Store)}}
		},
		Peek: peek,
		Restart: func(_ *testing.T, s fencetest.Store) fencetest.Store {
			return guarded{blobfence.Fence{Store: again(s.(guarded).Store)}}
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, name string, t fencing.Token, value string) error {
			return guarded{blobfence.Fence{Store: &losing{Store: s.(guarded).Store}}}.Write(ctx, name, t, value)
		},
	}
}

func TestFenceOnADirectoryPassesTheSuite(t *testing.T) {
	suite(
		func(t *testing.T) blobfence.Store { return blobfence.Dir{Path: t.TempDir()} },
		func(s blobfence.Store) blobfence.Store { return blobfence.Dir{Path: s.(blobfence.Dir).Path} },
	).Run(t)
}

func TestFenceOnAStoreInMemoryPassesTheSuite(t *testing.T) {
	suite(
		func(t *testing.T) blobfence.Store { return newMemory() },
		func(s blobfence.Store) blobfence.Store { return s },
	).Run(t)
}

// Whatever is lost, repeated by us or late, the history of racing holders passes.
func TestHistoriesPassWhileRequestsAndAnswersAreLost(t *testing.T) {
	first := testscale.Seed(t)
	for seed := first; seed != first+30; seed++ {
		m := newMemory()
		rec := fencetest.Record(guarded{blobfence.Fence{Store: m}})
		m.fault = m.randomly(rand.New(rand.NewPCG(seed, 0)))
		fencetest.Race(t.Context(), rec, 4, 5, seed)
		m.mu.Lock()
		m.fault = nil
		m.mu.Unlock()
		m.arrive()
		for _, name := range fencetest.RaceResources {
			_, _ = rec.Read(t.Context(), name, 1<<40)
		}
		if err := fencetest.Check(rec.History()); err != nil {
			t.Fatal(err)
		}
	}
}
