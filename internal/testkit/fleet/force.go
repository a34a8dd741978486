//go:build unix

package fleet

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// Force makes two holders overtake one another, in this process and in one order. They are not stopped,
// but each waits for the other. What may happen in Run happens here once: a holder whose lease ends
// between its read and its write writes after the next one. If there are readers, two that share read
// in an order that is not their tokens', and one of them reads again when a writer that came later has
// written.
func (f Fleet) Force(t testing.TB) Result {
	t.Helper()
	if f.Issuer == nil {
		f.Issuer = &counter{}
	}
	y := &yard{fleet: f, dir: t.TempDir()}
	first, second := y.holder(t, "first"), y.holder(t, "second")
	acquire := func() fencing.Token { return f.Issuer.Issue(first.resource) }
	end := func(t fencing.Token) { f.Issuer.End(first.resource, t) }
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}

	one := acquire()
	before, err := first.read(one)
	must(err)
	end(one)
	two := acquire()
	set, err := second.read(two)
	must(err)
	must(second.write(two, set, "second"))
	end(two)
	_ = first.write(one, before, "first") // a guard refuses it

	if f.Readers != NoReaders {
		one, two := acquire(), acquire()
		must(second.look(two))
		_ = first.look(one) // one register refuses it
		end(one)
		end(two)
		three := acquire()
		set, err := second.read(three)
		must(err)
		must(second.write(three, set, "third"))
		end(three)
		_ = first.look(one) // two registers refuse it
	}
	y.collect(t)
	return y.result
}

// A holder is one of those that Force makes overtake one another.
type holder struct {
	*actor
	store    Store
	ctx      context.Context
	resource string
}

func (y *yard) holder(t testing.TB, who string) *holder {
	path := filepath.Join(y.dir, who)
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	y.logs = append(y.logs, path)
	store, err := y.fleet.Open(y.fleet.Address, y.fleet.Guard)
	if err == nil {
		store, err = y.fleet.Readers.store(store, func() (Store, error) { return y.fleet.Open(y.fleet.Address, false) })
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &holder{&actor{who: who, out: log}, store, t.Context(), "set0"}
}

func (h *holder) read(t fencing.Token) (set string, err error) {
	err = h.do(fencetest.Op{Kind: fencetest.Read, Resource: h.resource, Token: t}, "", func() (_ string, err error) {
		set, err = h.store.Read(h.ctx, h.resource, t)
		return set, err
	})
	return set, err
}

func (h *holder) write(t fencing.Token, set, id string) error {
	set += " " + id
	return h.do(fencetest.Op{Kind: fencetest.Write, Resource: h.resource, Token: t, Value: set}, id, func() (string, error) {
		return "", h.store.Write(h.ctx, h.resource, t, set)
	})
}

func (h *holder) look(t fencing.Token) error {
	return h.do(fencetest.Op{Kind: fencetest.Read, Resource: h.resource, Token: t, Shared: true}, "", func() (string, error) {
		return h.store.(SharedStore).ReadShared(h.ctx, h.resource, t)
	})
}
