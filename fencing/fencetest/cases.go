package fencetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pawl-locks/pawl/fencing"
)

func staleTokens(b *bench) {
	b.write("jobs/42", 41, "a")
	b.write("jobs/42", 57, "b")
	b.stale("jobs/42", 41, 57)
	b.stale("jobs/42", 56, 57)
	b.stale("jobs/42", 1, 57)
	b.holds("jobs/42", "b")
	b.write("jobs/42", 58, "c")
	b.stale("jobs/42", 57, 58)
}

func equalTokens(b *bench) {
	b.write("jobs/42", 57, "a")
	b.write("jobs/42", 57, "b")
	b.write("jobs/42", 57, "b") // again, because some stores report rows changed, not rows found
	b.reads("jobs/42", 57, "b")
	b.reads("jobs/42", 57, "b")
	b.write("jobs/42", 57, "c")
	b.holds("jobs/42", "c")
}

func readsRegister(b *bench) {
	b.write("jobs/42", 41, "a")
	b.reads("jobs/42", 57, "a")
	b.stale("jobs/42", 41, 57)
	b.holds("jobs/42", "a")
	b.reads("never written", 57, "")
	b.stale("never written", 41, 57)
	b.holds("never written", "")
	b.write("never written", 57, "b")
	b.holds("never written", "b")
}

// sharedTokens is skipped by a store that refuses them.
func sharedTokens(b *bench) {
	for _, s := range b.instances {
		if _, ok := s.(SharedStore); !ok {
			b.Skip("the store is no SharedStore")
		}
	}
	b.write("jobs/42", 41, "a")
	b.readsShared("jobs/42", 57, "a")
	b.readsShared("jobs/42", 55, "a") // holds the lock together with 57
	b.readsShared("jobs/42", 57, "a")
	b.staleShared("jobs/42", 40, 41)
	b.stale("jobs/42", 41, 57)
	b.stale("jobs/42", 56, 57)
	b.write("jobs/42", 58, "b")
	b.staleShared("jobs/42", 57, 58)
	b.readsShared("jobs/42", 60, "b")
	b.readsShared("jobs/42", 59, "b")
	b.readsShared("never written", 57, "")
	b.stale("never written", 41, 57)
	b.readsShared("never written", 55, "")
	for _, s := range b.instances {
		if _, err := s.(SharedStore).ReadShared(b.ctx, "jobs/42", 0); !errors.Is(err, fencing.ErrNoToken) {
			b.Fatalf("read under shared token 0: got error %v, want one that matches %q", err, fencing.ErrNoToken)
		}
	}
}

// manyResources uses many resources with rising tokens, as from one cluster's counter, so that a guard
// that forgets some may refuse by a floor.
func manyResources(b *bench) {
	n := cmp.Or(b.Resources, 300)
	name := func(i int) string { return fmt.Sprint("jobs/", i) }
	for i := range n {
		b.write(name(i), fencing.Token(1000+i), "a")
	}
	for i := range n {
		err := b.store().Write(b.ctx, name(i), fencing.Token(999+i), "stale")
		var stale *fencing.StaleError
		if !errors.As(err, &stale) {
			b.Fatalf("stale write to resource %d of %d: got error %v, want a *fencing.StaleError", i+1, n, err)
		}
		b.holds(name(i), "a")
	}
}

func unknownResource(b *bench) {
	b.write("high", 1<<62, "a")
	b.reads("low", 1, "")
	b.write("low", 1, "b")
	b.write("lowest", 1, "c")
	b.stale("high", 1<<62-1, 1<<62)
	b.holds("low", "b")
}

func resourcesApart(b *bench) {
	names := []string{"a", "A", "a ", " a", "a/b", "a%2Fb", "a%2fb", "a//b", "../a", ".", "..", "/", "a\\b", "a'b", `a"b`, "a;b", "a,b", "a?b=c#d", "ä", "a\u0308", "é", "e",
		"日本", "a\nb", "a\tb", "a\x00", "a\x00b", "\xff\xfe", "\xff\xfd", "a.tmp", "a.lock", "%", "_", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", fencing.MaxResource)}
	for i, name := range names {
		b.write(name, fencing.Token(100+len(names)-i), fmt.Sprint("value ", i))
	}
	for i, name := range names {
		b.holds(name, fmt.Sprint("value ", i))
		b.stale(name, fencing.Token(99+len(names)-i), fencing.Token(100+len(names)-i))
	}
}

func noToken(b *bench) {
	check := func(resource string, t fencing.Token, want error) {
		b.Helper()
		if err := b.store().Write(b.ctx, resource, t, "none"); !errors.Is(err, want) {
			b.Fatalf("write under token %d to %q: got error %v, want one that matches %q", t, resource, err, want)
		}
		if _, err := b.store().Read(b.ctx, resource, t); !errors.Is(err, want) {
			b.Fatalf("read under token %d of %q: got error %v, want one that matches %q", t, resource, err, want)
		}
	}
	check("jobs/42", 0, fencing.ErrNoToken)
	check("jobs/42", -1, fencing.ErrNoToken)
	check("jobs/42", -1<<63, fencing.ErrNoToken)
	check("", 57, fencing.ErrNoResource)
	check(strings.Repeat("x", fencing.MaxResource+1), 57, fencing.ErrNoResource)
	b.holds("jobs/42", "")
	b.write("jobs/42", 1, "first")
	check("jobs/42", 0, fencing.ErrNoToken)
	b.holds("jobs/42", "first")
}

func race(b *bench) {
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	rec := Record(b.instances[0], b.instances[1:]...)
	last := Race(b.ctx, rec, cmp.Or(b.Writers, 8), cmp.Or(b.Rounds, 25), seed) + 1
	for _, resource := range RaceResources {
		if _, err := rec.As("last").Read(b.ctx, resource, last); err != nil {
			b.Fatalf("the last read: %v", err)
		}
	}
	b.checkHistory(rec.History())
}

// checkHistory wants a history that passes, and in which something happened.
func (b *bench) checkHistory(history []Op) {
	count := map[Outcome]int{}
	for _, o := range history {
		count[o.Outcome]++
	}
	b.Logf("%d operations: %v", len(history), count)
	if err := Check(history); err != nil {
		b.Fatal(err)
	}
	if count[Applied] <= 2 {
		b.Fatal("hardly any operation was applied; the race shows nothing")
	}
}

func restart(b *bench) {
	b.write("jobs/42", 41, "a")
	b.write("jobs/42", 57, "b")
	b.reads("only read", 57, "")
	if s, ok := b.store().(SharedStore); ok {
		if _, err := s.ReadShared(b.ctx, "shared", 57); err != nil {
			b.Fatalf("read under shared token 57: %v", err)
		}
	}
	again := b.Restart(b.T, b.instances[0])
	b.instances = []Store{again, b.Join(b.T, again)}
	b.holds("jobs/42", "b")
	b.stale("jobs/42", 41, 57)
	b.stale("only read", 41, 57)
	if _, shared := again.(SharedStore); shared {
		b.staleShared("jobs/42", 57, 57)
		b.stale("shared", 56, 57)
		b.readsShared("shared", 55, "")
	}
	b.reads("jobs/42", 57, "b")
	b.write("jobs/42", 58, "c")
}

func abort(b *bench) {
	b.write("jobs/42", 41, "a")
	for _, resource := range []string{"jobs/42", "new"} {
		if err := b.Abort(b.ctx, b.store(), resource, 57, "aborted"); err != nil {
			b.Fatalf("abort: %v", err)
		}
	}
	b.holds("jobs/42", "a")
	b.holds("new", "")
	b.write("jobs/42", 41, "b")
	b.write("new", 1, "c")
}

func lostAnswer(b *bench) {
	b.write("jobs/42", 41, "a")
	err := b.LoseAnswer(b.ctx, b.store(), "jobs/42", 57, "b")
	if o, _ := OutcomeOf(err); o != Applied && o != Unknown {
		b.Fatalf("an applied write says that it was not: %v", err)
	}
	b.holds("jobs/42", "b")
	b.stale("jobs/42", 41, 57)
	b.write("jobs/42", 57, "b")
	b.reads("jobs/42", 57, "b")
	if err := b.LoseAnswer(b.ctx, b.store(), "new", 57, "c"); err != nil {
		b.write("new", 57, "c")
	}
	b.stale("new", 56, 57)
	b.holds("new", "c")
}

func doneContext(b *bench) {
	b.write("jobs/42", 41, "a")
	done, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := b.store().Write(done, "jobs/42", 57, "b"); err == nil {
		b.Fatal("a write whose context was done before it began returned nil")
	}
	if _, err := b.store().Read(done, "jobs/42", 57); err == nil {
		b.Fatal("a read whose context was done before it began returned nil")
	}
	b.holds("jobs/42", "a")
	b.write("jobs/42", 41, "c")
}
