package session

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// holding is the state of an acquisition that is held.
func holding() state.Machine { return state.Resumed(state.Key{Name: "own", Create: 1}, 1) }

// randomEvent is something that may happen to an entry.
func randomEvent(rnd *rand.Rand, own string) state.Event {
	key := state.Key{Name: own, Create: 1 + rnd.Int64N(3)}
	return []state.Event{
		state.NotPut{}, state.AnswerLost{}, state.AnswerLost{Answered: true}, state.Settled{}, state.Settled{Own: key},
		state.Enqueued{Own: key, Whole: true, Revision: key.Create}, state.Enqueued{Own: key, Predecessor: state.Key{Name: "other", Create: 1}, Revision: key.Create},
		state.PredecessorDeleted{Key: state.Key{Name: "other", Create: 1}}, state.Answered{Found: true, Revision: 9},
		state.Won{}, state.Won{}, state.GaveUp{}, state.HoldExpired{}, state.EndOfSession{}, state.OwnDeleted{Revision: 10},
		state.OwnChanged{Create: 1, Mod: 10}, state.Released{}, state.Released{Later: true}, state.DeleteSent{},
		state.DeleteAnswered{Outcome: state.Applied, Exact: true}, state.DeleteAnswered{Outcome: state.Unknown}, state.Removed{},
	}[rnd.IntN(22)]
}

// A2, RW5, ML8, N6: whatever happens to entries in any order, all invariants hold after each step; what
// Alone relies on, and what a Handle carries, agree with a count of the entries that is made again each time,
// with keys of all forms, and several names at once.
// rule: RW5
func TestTheBookAgreesWithACountOfItsEntries(t *testing.T) {
	for seed := range testscale.Of(uint64(9), 50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			host := Host{Cleanup: &cleanup.Group{}}
			host.Cleanup.Close(0) // nothing is removed
			s := newSession(host, lease.Options{})
			s.id = 7
			s.validity.begin(clock.Now(), time.Minute)
			b := &s.book
			var first int64 = 1
			if seed%3 == 0 {
				first = 4
				require.NoError(t, b.inherit(7, first, []string{"a/+7-1", "b/7-3", "a/7-3"}, nil, -1))
			}
			var begun []*Entry
			names := map[*Entry][]string{}
			for range 300 {
				s.mu.Lock()
				if rnd.IntN(12) == 0 || len(begun) == 0 { // so seldom that now and then none is left
					var specs []keys.Spec
					all := []string{"a/", "b/", "a/b/"}
					rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					for _, name := range all[:1+rnd.IntN(len(all))] {
						specs = append(specs, keys.Spec{Prefix: name, Form: keys.Form(rnd.IntN(3))})
					}
					e := &Entry{Machine: state.Begin(state.Options{})}
					s.roster.add(e, &dependent{}, false)
					own := b.begin(e, 7, specs...)
					s.Step(e, state.Begun{})
					for i, p := range specs {
						assert.Equal(t, fmt.Sprintf("%s%s7-%d", p.Prefix, []string{"", "+", "q"}[p.Form], e.number), own[i])
						names[e] = append(names[e], p.Prefix)
					}
					begun = append(begun, e)
				} else {
					e := begun[rnd.IntN(len(begun))]
					held, had := e.Phase == state.Held, b.has(e)
					s.Step(e, randomEvent(rnd, "own"))
					if e.removable() && rnd.IntN(3) == 0 {
						s.absent(e)
						s.absent(e) // is not counted again
					}
					require.False(t, !held && e.Phase == state.Held && e.End != state.Alive, "what has ended is held")
					require.False(t, !had && b.has(e), "what is gone comes back")
				}
				require.Empty(t, s.wrong())
				live, unsettled := map[string][]int64{}, []string{}
				for n, e := range b.entries {
					for _, key := range e.keys {
						name, _ := keys.Split(key)
						live[name] = append(live[name], n)
					}
					if e.Phase != state.Held {
						unsettled = append(unsettled, e.keys...)
					}
				}
				slices.Sort(unsettled)
				require.Equal(t, unsettled, append([]string{}, undoneOf(b, nil)...))
				for _, e := range begun {
					for _, name := range names[e] {
						want := first == 1 && len(live[name]) == 1 && live[name][0] == e.number
						for later, others := range names {
							want = want && !(later.number > e.number && slices.Contains(others, name))
						}
						require.Equal(t, want, b.alone(e, name), "entry %d of %q: %v", e.number, name, live)
					}
				}
				s.mu.Unlock()
			}
			s.mu.Lock()
			s.ended.Store(&lease.ErrClosed)
			s.mu.Unlock()
		})
	}
}

// ML8: the keys of one number are one entry, adopted and undone as one.
// rule: ML8
func TestASetOfKeysIsOneEntry(t *testing.T) {
	s := &Session{book: newBook()}
	b := &s.book
	require.NoError(t, b.inherit(7, 5, []string{"a/7-2", "b/+7-2", "//pawl/sem/c/q7-3", "//pawl/sem/c/s1.4.7-3"}, nil, -1))
	assert.Len(t, b.entries, 2)
	assert.Equal(t, 2, s.removalOps(b.entries[2]), "two deletions: the session key refuses late copies")
	assert.Equal(t, count{1, 3}, b.counts["//pawl/sem/c/"], "a turnstile and a slot are one entry of the name")
	require.True(t, b.mayAdopt(4))
	e := &Entry{Machine: holding()}
	b.adopt(e, 4, []string{"a/7-4", "b/7-4"})
	assert.Equal(t, count{2, 4}, b.counts["a/"])
	assert.Zero(t, s.removalOps(e), "it is held")
	e.Machine = state.Left(false)
	assert.Equal(t, 2, s.removalOps(e))
	b.strike(e)
	assert.Equal(t, count{1, 4}, b.counts["b/"])
	assert.Equal(t, []string{"//pawl/sem/c/q7-3", "//pawl/sem/c/s1.4.7-3", "a/7-2", "b/+7-2"}, undoneOf(b, nil))
	assert.Equal(t, []string{"a/7-2", "b/+7-2"}, undoneOf(b, map[string]bool{"//pawl/sem/c/s1.4.7-3": true}), "it is kept whole")
}

func TestAPredecessorsEntryIsResumedOnceEvenAfterItsEnd(t *testing.T) {
	b := newBook()
	require.NoError(t, b.inherit(7, 5, []string{"a/7-2"}, nil, -1))
	assert.False(t, b.mayAdopt(2), "it was open: it is undone, and nobody's")
	require.True(t, b.mayAdopt(3))
	e := &Entry{Machine: holding()}
	b.adopt(e, 3, []string{"a/7-3"})
	assert.False(t, b.mayAdopt(3))
	b.strike(e)
	assert.False(t, b.mayAdopt(3))
	assert.False(t, b.mayAdopt(5), "its own")
	assert.False(t, b.mayAdopt(0))
	assert.Equal(t, []string{"a/7-2"}, undoneOf(&b, nil))
}

// LD3: a Handle tells each successor what was held and not released.
func TestAHandleListsWhatWasNotReleased(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		n, _, err := begin(s, "a/")
		require.NoError(t, err)
		assert.Zero(t, step(s, n, state.HoldExpired{}), "it is not held")
		wins(s, n)
		isUnreleased(s, n)
		other, _, err := begin(s, "a/")
		require.NoError(t, err)
		e := s.book.entries[n]
		assert.Equal(t, 1, s.removalOps(e))
		assert.True(t, s.book.keepsAny())
		assert.Equal(t, []int64{n}, s.book.losses())
		next := newBook()
		require.NoError(t, next.inherit(s.id, s.book.next, undoneOf(&s.book, nil), s.book.losses(), -1))
		assert.True(t, next.entries[n].lost())
		assert.False(t, next.entries[other].lost())
		assert.Equal(t, []int64{n}, next.losses(), "and by the successor's successor")
		s.Absent(e)
		assert.Zero(t, s.removalOps(e))
		assert.Empty(t, s.book.losses())
	})
}

// Every key that is removed with an entry counts as an operation, because a server refuses more than it
// allows.
func TestAnOwnerKeyIsCountedWithItsEntry(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		n, _, err := begin(s, "a/")
		require.NoError(t, err)
		e := s.book.entries[n]
		s.PutsOwnerKey(e)
		assert.Zero(t, s.removalOps(e), "it is wanted")
		isUnwanted(s, n)
		assert.Equal(t, 3, s.removalOps(e), "its cancel key, and two deletions")
		n, _, err = begin(s, "a/")
		require.NoError(t, err)
		e = s.book.entries[n]
		s.PutsOwnerKey(e)
		isAnswered(s, n)
		isUnwanted(s, n)
		assert.Equal(t, 2, s.removalOps(e))
	})
}

func TestWhatIsNotOfTheLeaseIsNotInherited(t *testing.T) {
	for _, key := range []string{"precious/1-1", "a/7-x", "a/7", "a/7-0", "a/7--1", "a/7-5", "a/7-9223372036854775808"} {
		b := newBook()
		assert.ErrorContains(t, b.inherit(7, 5, []string{key}, nil, -1), "is not of lease", key)
	}
}

// A Handle has its lists in order, whatever the order of a map, because Parse refuses others.
func TestTheListsOfAHandleAreInOrder(t *testing.T) {
	b := newBook()
	now := clock.Now()
	for range 50 {
		e := &Entry{Machine: state.Left(true)}
		b.begin(e, 1, keys.Spec{Prefix: "a/"})
		e.keep().Until, e.keep().Ended = now.Add(time.Second), now
	}
	losses, kept := b.losses(), b.keeps(now)
	require.Len(t, losses, 50)
	require.Len(t, kept, 50)
	assert.True(t, slices.IsSorted(losses))
	assert.True(t, slices.IsSorted(undoneOf(&b, nil)))
	assert.True(t, slices.IsSortedFunc(kept, func(x, y detached.Kept) int { return cmp.Compare(x.N, y.N) }))
}

// N6, A5: a Handle is written from what was known when the session ended. What a late answer shows to be gone
// is left out, what may exist is in it, and what was held is not, even if its end was told by then.
// rule: N6
func TestAHandleIsWrittenFromWhatWasKnownAtTheEnd(t *testing.T) {
	own := state.Key{Name: "own", Create: 1}
	for name, c := range map[string]struct {
		before, after []state.Event
		listed        bool
	}{
		"held":                           {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}}, nil, false},
		"won too late":                   {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}}, []state.Event{state.Won{}}, true},
		"open":                           {nil, nil, true},
		"open, and never applied":        {nil, []state.Event{state.NotPut{}}, false},
		"open, and lost":                 {nil, []state.Event{state.AnswerLost{}}, true},
		"open, and settled":              {[]state.Event{state.AnswerLost{}}, []state.Event{state.Settled{}}, false},
		"open, and settled as applied":   {[]state.Event{state.AnswerLost{}}, []state.Event{state.Settled{Own: own}}, true},
		"open, and answered":             {nil, []state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}}, true},
		"being released":                 {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}, state.Released{}, state.DeleteSent{}}, nil, true},
		"being released, and answered":   {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}, state.Released{}, state.DeleteSent{}}, []state.Event{state.DeleteAnswered{Outcome: state.Applied, Exact: true}}, false},
		"held, and released too late":    {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}}, []state.Event{state.Released{}, state.Released{Later: true}}, false},
		"held, and its key seen deleted": {[]state.Event{state.Enqueued{Own: own, Whole: true, Revision: 1}, state.Won{}}, []state.Event{state.OwnDeleted{}, state.HoldExpired{}, state.GaveUp{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{})
				n, key, err := begin(s, "a/")
				require.NoError(t, err)
				step(s, n, c.before...)
				ended := fmt.Errorf("%w: detached", lease.ErrClosed)
				require.Equal(t, ended, s.end(ended, handOver))
				step(s, n, state.EndOfSession{})
				step(s, n, c.after...)
				state := s.state(nil)
				if c.listed {
					assert.Equal(t, []string{key}, state.ToRemove)
				} else {
					assert.Empty(t, state.ToRemove)
				}
			})
		})
	}
}

// undoneOf is what a Handle that is written now leaves to be removed.
func undoneOf(b *book, kept map[string]bool) []string {
	all, _ := b.toRemove(kept)
	return all
}
