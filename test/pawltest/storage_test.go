package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// store keeps one value behind a token. What it lacks, a test says.
type store struct {
	mu    sync.Mutex
	seen  fencing.Token
	value string

	unchecked, apart, forgets, unregistered, refuses bool
}

// admit is called with the mutex locked, and its caller keeps it to the end of the call: between an
// admission and what it admits, another goroutine would find a gap even without a Pause.
func (s *store) admit(ctx context.Context) error {
	_, token, ok := fencing.FromContext(ctx)
	switch {
	case !ok || s.refuses && s.value != "":
		return errors.New("no")
	case token < s.seen && !s.unchecked:
		return &fencing.StaleError{Resource: "storage", Got: token, Highest: s.seen}
	case !s.forgets:
		s.seen = max(s.seen, token)
	}
	return nil
}

func (s *store) write(ctx context.Context, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(ctx); err != nil {
		return err
	}
	if s.apart { // admission and write are two steps
		s.mu.Unlock()
		pawltest.Pause(ctx)
		s.mu.Lock()
	}
	s.value = value
	return nil
}

func (s *store) read(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unregistered {
		if err := s.admit(ctx); err != nil {
			return "", err
		}
	}
	return s.value, nil
}

// whole is a store that keeps its mutex from the admission to the end, through a pause.
type whole struct {
	mu    sync.Mutex
	seen  fencing.Token
	value string
}

func (s *whole) do(ctx context.Context, f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, token, _ := fencing.FromContext(ctx)
	if token < s.seen {
		return errors.New("stale: an error of its own")
	}
	s.seen = token
	pawltest.Pause(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f()
	return nil
}

func (s *whole) write(ctx context.Context, value string) error {
	return s.do(ctx, func() { s.value = value })
}

func (s *whole) read(ctx context.Context) (value string, err error) {
	err = s.do(ctx, func() { value = s.value })
	return value, err
}

// failed is a test that may fail, and says with what.
type failed struct {
	testing.TB
	mu   sync.Mutex
	said string
}

func (f *failed) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said += fmt.Sprintf(format, args...)
}

func (f *failed) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.said != ""
}

// found is what Check says of a storage.
func found(t *testing.T, s pawltest.Storage) string {
	f := &failed{TB: t}
	s.Check(f)
	return f.said
}

func TestStorageThatRefusesStaleHoldersPasses(t *testing.T) {
	s, w := &store{}, &whole{}
	pawltest.Storage{Write: s.write, Read: s.read}.Check(t)
	pawltest.Storage{Write: (&store{}).write, Runs: 50}.Check(t)
	pawltest.Storage{Write: w.write, Read: w.read, Runs: 10, Seed: 1}.Check(t)
}

func TestStorageThatAdmitsAStaleHolderIsFound(t *testing.T) {
	const admitted, applied = "a stale token was admitted", "an older holder's write was applied"
	for _, c := range []struct {
		what, want string
		store      *store
		blind      bool // it has no Read
	}{
		{"it does not compare", admitted, &store{unchecked: true}, false},
		{"it does not compare, and is never read", admitted, &store{unchecked: true}, true},
		{"it does not remember", admitted, &store{forgets: true}, false},
		{"it compares, and then writes", applied, &store{apart: true}, false},
		{"its reads tell it nothing", admitted, &store{unregistered: true}, false},
		{"it refuses who has the lock", "the holder of the lock was refused: no", &store{refuses: true}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := pawltest.Storage{Write: c.store.write, Read: c.store.read}
			if c.blind {
				s.Read = nil
			}
			said := found(t, s)
			assert.Contains(t, said, c.want)
			assert.Contains(t, said, "A's first of run")
		})
	}
}

func TestPauseDoesNothingElsewhere(t *testing.T) {
	pawltest.Pause(t.Context())
}
