package fencetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// A Suite is what the tests need to know of a guard. Open, Join and Peek are required. If a store
// does not support what another function needs, leave that function nil, and its test is skipped
// with a message.
type Suite struct {
	// Open returns a store with nothing in it. It is called for each test, and cleans up with t.Cleanup.
	Open func(t *testing.T) Store

	// Join returns a second instance of a store, as another process would have it. It shares nothing
	// with s but the place where both keep their values. It cleans up with t.Cleanup.
	Join func(t *testing.T, s Store) Store

	// Peek reads a value past the guard, and registers nothing. It returns "" if none was written.
	Peek func(ctx context.Context, s Store, resource string) (string, error)

	// Restart stops what keeps the tokens and starts it again on what was saved.
	Restart func(t *testing.T, s Store) Store

	// Abort has t admitted and value written, and then gives both up, as in a transaction that is
	// rolled back.
	Abort func(ctx context.Context, s Store, resource string, t fencing.Token, value string) error

	// LoseAnswer is a Write that is applied but whose first answer is lost. It returns what the
	// caller gets, which is nil if the guard settles the lost answer itself.
	LoseAnswer func(ctx context.Context, s Store, resource string, t fencing.Token, value string) error

	// Writers and Rounds size the races. 0 means 8 and 25.
	Writers, Rounds int

	// Resources is how many resources the guard must remember. 0 means 300.
	Resources int
}

// Run runs all tests.
func (s Suite) Run(t *testing.T) {
	if s.Open == nil || s.Join == nil || s.Peek == nil {
		t.Fatal("fencetest: Suite.Open, Suite.Join and Suite.Peek are required")
	}
	for _, test := range []struct {
		name string
		has  bool
		run  func(*bench)
	}{
		{"StaleTokensAreRefusedAndWriteNothing", true, staleTokens},
		{"EqualTokensAreAdmitted", true, equalTokens},
		{"ReadsRegisterTheirToken", true, readsRegister},
		{"SharedTokensShareAndExcludeWriters", true, sharedTokens},
		{"UnknownResourcesAdmitAnyToken", true, unknownResource},
		{"ManyResourcesAreRemembered", true, manyResources},
		{"ResourcesAreKeptApart", true, resourcesApart},
		{"NoTokenAndNoResourceAreRefused", true, noToken},
		{"RacingHoldersAreAdmittedInOrder", true, race},
		{"RefusalsSurviveARestart", s.Restart != nil, restart},
		{"AbortedWritesLeaveNoTrace", s.Abort != nil, abort},
		{"WritesWhoseAnswerWasLostCanBeRepeated", s.LoseAnswer != nil, lostAnswer},
		{"DoneContextsEndInAnError", true, doneContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.has {
				t.Skip("the store has no such thing: its function in fencetest.Suite is nil")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			first := s.Open(t)
			test.run(&bench{T: t, Suite: s, ctx: ctx, instances: []Store{first, s.Join(t, first)}})
		})
	}
}

// A bench is one test, with two instances of a store that no other test uses.
type bench struct {
	*testing.T
	Suite
	ctx       context.Context
	instances []Store
	calls     int
}

// store alternates between the two instances.
func (b *bench) store() Store {
	b.calls++
	return b.instances[b.calls%len(b.instances)]
}

func (b *bench) write(resource string, t fencing.Token, value string) {
	b.Helper()
	if err := b.store().Write(b.ctx, resource, t, value); err != nil {
		b.Fatalf("write of %q under token %d to %q: %v", value, t, resource, err)
	}
}

func (b *bench) reads(resource string, t fencing.Token, want string) {
	b.Helper()
	got, err := b.store().Read(b.ctx, resource, t)
	b.got("token", resource, t, got, want, err)
}

func (b *bench) readsShared(resource string, t fencing.Token, want string) {
	b.Helper()
	got, err := b.store().(SharedStore).ReadShared(b.ctx, resource, t)
	b.got("shared token", resource, t, got, want, err)
}

func (b *bench) got(kind, resource string, t fencing.Token, got, want string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("read under %s %d of %q: %v", kind, t, resource, err)
	}
	if got != want {
		b.Fatalf("read under %s %d of %q gave %q, want %q", kind, t, resource, got, want)
	}
}

// stale requires that each instance refuse a write and a read.
func (b *bench) stale(resource string, t, highest fencing.Token) {
	b.Helper()
	before := b.peek(resource)
	for _, s := range b.instances {
		b.refusal("write", s.Write(b.ctx, resource, t, "stale"), fencing.StaleError{Resource: resource, Got: t, Highest: highest})
		_, err := s.Read(b.ctx, resource, t)
		b.refusal("read", err, fencing.StaleError{Resource: resource, Got: t, Highest: highest})
	}
	if after := b.peek(resource); after != before {
		b.Fatalf("a refused write changed the value of %q from %q to %q", resource, before, after)
	}
}

func (b *bench) staleShared(resource string, t, highest fencing.Token) {
	b.Helper()
	for _, s := range b.instances {
		_, err := s.(SharedStore).ReadShared(b.ctx, resource, t)
		b.refusal("shared read", err, fencing.StaleError{Resource: resource, Got: t, Highest: highest})
	}
}

func (b *bench) refusal(what string, err error, want fencing.StaleError) {
	b.Helper()
	var stale *fencing.StaleError
	if !errors.As(err, &stale) {
		b.Fatalf("stale %s under token %d of %q: got error %v, want a *fencing.StaleError", what, want.Got, want.Resource, err)
	}
	if *stale != want {
		b.Fatalf("stale %s: got %+v, want %+v", what, *stale, want)
	}
}

func (b *bench) peek(resource string) string {
	b.Helper()
	value, err := b.Peek(b.ctx, b.store(), resource)
	if err != nil {
		b.Fatalf("peek at %q: %v", resource, err)
	}
	return value
}

func (b *bench) holds(resource, want string) {
	b.Helper()
	if got := b.peek(resource); got != want {
		b.Fatalf("%q holds %q, want %q", resource, got, want)
	}
}
