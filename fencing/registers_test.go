package fencing

import (
	"fmt"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestSharedTokensAreAdmittedInAnyOrderAboveTheHighestExclusiveOne(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("r", 4))
	for _, token := range []Token{7, 5, 6, 5, 7} {
		require.NoError(t, g.AdmitShared("r", token))
	}
	refused(t, g.AdmitShared("r", 3), StaleError{"r", 3, 4})
	refused(t, g.AdmitShared("r", 4), StaleError{"r", 4, 4})
}

func TestExclusiveTokenBelowASharedOneIsRefused(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("r", 5))
	require.NoError(t, g.AdmitShared("r", 7))
	refused(t, g.Admit("r", 5), StaleError{"r", 5, 7})
	refused(t, g.Admit("r", 6), StaleError{"r", 6, 7})
	require.NoError(t, g.Admit("r", 8))
	refused(t, g.AdmitShared("r", 7), StaleError{"r", 7, 8})
}

func TestRefusalChangesNeitherRegister(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("r", 5))
	require.NoError(t, g.AdmitShared("r", 7))
	before := string(g.Snapshot())
	require.Error(t, g.Admit("r", 6))
	require.Error(t, g.AdmitShared("r", 5))
	require.Error(t, g.AdmitShared("r", 0))
	assert.Equal(t, before, string(g.Snapshot()))
}

func TestForgottenResourceIsCheckedAgainstBothRegistersOfTheFloor(t *testing.T) {
	g := Gate{Limit: 1}
	require.NoError(t, g.Admit("r", 5))
	require.NoError(t, g.AdmitShared("r", 9))
	require.NoError(t, g.Admit("other", 20)) // r is forgotten
	refused(t, g.Admit("r", 8), StaleError{"r", 8, 9})
	refused(t, g.AdmitShared("r", 5), StaleError{"r", 5, 5})
	require.NoError(t, g.AdmitShared("r", 6), "it holds the lock together with 9")
	refused(t, g.Admit("r", 8), StaleError{"r", 8, 9})
}

// An admission that is preempted while the entry is forgotten.
func TestExclusiveTokenRaisedInAForgottenEntryIsNotLost(t *testing.T) {
	r := newRegisters("r", pair{5, 5})
	was := r.pair.Load()
	assert.Equal(t, pair{5, 5}, r.forget())
	_, done := r.decide(was, 10, false)
	assert.False(t, done, "so the admission begins again")
	assert.Equal(t, Token(forgotten), r.admit(10, false))
}

// A storage decides on operations. Its text is its whole state.
type storage interface {
	admit(t Token, shared bool) bool
	text() string
}

type gated struct{ Gate }

func (g *gated) admit(t Token, shared bool) bool { return g.Gate.admit("r", t, shared) == nil }
func (g *gated) text() string                    { return string(g.Snapshot()) }

// A single keeps one register: of either mode's tokens, or of exclusive ones.
type single struct {
	highest       Token
	exclusiveOnly bool
}

func (s *single) admit(t Token, shared bool) bool {
	if t < s.highest {
		return false
	}
	if !shared || !s.exclusiveOnly {
		s.highest = t
	}
	return true
}
func (s *single) text() string { return fmt.Sprint(s.highest) }

// A system is a storage and a queue of entries with tokens that start at 1, of which some are shared.
// Entry i holds the lock once all before it that conflict are gone. An entry that held once may operate
// at any time, whether or not it is gone by then.
type system struct {
	n      int
	shared func(i int) bool
	clone  func(text string) storage
	seen   map[string]bool
	states int

	stale, refused int // operations admitted after a later conflicting one, and operations of holders refused
}

type state struct {
	gone, held         int // sets of entries
	lastAny, lastAlone int // the greatest token of the operations that were admitted: of all, and of the exclusive ones
	storage            string
}

func (w *system) conflict(i, j int) bool { return !w.shared(i) || !w.shared(j) }

func (w *system) holds(s state, i int) bool {
	if s.gone>>i&1 == 1 {
		return false
	}
	for j := range i {
		if s.gone>>j&1 == 0 && w.conflict(i, j) {
			return false
		}
	}
	return true
}

func (w *system) explore(s state) {
	for i := range w.n {
		if w.holds(s, i) {
			s.held |= 1 << i
		}
	}
	key := fmt.Sprint(s)
	if w.seen[key] {
		return
	}
	w.seen[key] = true
	w.states++
	for i := range w.n {
		if s.gone>>i&1 == 0 { // released, expired or deleted, also while it waits
			next := s
			next.gone |= 1 << i
			w.explore(next)
		}
		if s.held>>i&1 == 1 {
			w.explore(w.operate(s, i))
		}
	}
}

func (w *system) operate(s state, i int) state {
	token := i + 1
	store := w.clone(s.storage)
	admitted := store.admit(Token(token), w.shared(i))
	later := s.lastAlone
	if !w.shared(i) {
		later = s.lastAny
	}
	switch {
	case admitted && later > token:
		w.stale++
	case !admitted && w.holds(s, i):
		w.refused++
	}
	if admitted {
		s.lastAny = max(s.lastAny, token)
		if !w.shared(i) {
			s.lastAlone = max(s.lastAlone, token)
		}
	}
	s.storage = store.text()
	return s
}

// Every history of five entries, in all mixtures of modes, with every order of operations, losses
// and pauses.
func exploreAll(clone func(text string) storage) (states, stale, refused int) {
	const n = 5
	for modes := range 1 << n {
		w := &system{n: n, shared: func(i int) bool { return modes>>i&1 == 1 }, clone: clone, seen: map[string]bool{}}
		w.explore(state{storage: clone("").text()})
		states, stale, refused = states+w.states, stale+w.stale, refused+w.refused
	}
	return states, stale, refused
}

// rule: K2
func TestTwoRegistersAdmitNothingStaleAndRefuseNoHolderInAnyHistory(t *testing.T) {
	states, stale, refused := exploreAll(func(text string) storage {
		g := &gated{}
		if text != "" {
			require.NoError(t, g.Restore([]byte(text)))
		}
		return g
	})
	t.Logf("%d states", states)
	assert.Greater(t, states, 5_000)
	assert.Zero(t, stale)
	assert.Zero(t, refused)
}

func TestOneRegisterIsWrongInSomeHistories(t *testing.T) {
	one := func(exclusiveOnly bool) func(string) storage {
		return func(text string) storage {
			s := &single{exclusiveOnly: exclusiveOnly}
			_, _ = fmt.Sscan(text, &s.highest)
			return s
		}
	}
	_, stale, refused := exploreAll(one(false))
	assert.Zero(t, stale)
	assert.Positive(t, refused, "of readers that hold, by readers that came later")
	_, stale, refused = exploreAll(one(true))
	assert.Positive(t, stale, "writers, after readers that came later")
	assert.Zero(t, refused)
}
