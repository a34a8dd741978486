package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// kinds are entries of every kind: locks, sets, candidates with an owner key, and permits, in a session
// that may have taken another over.
type kinds struct {
	t   *testing.T
	rnd *rand.Rand
	s   *Session
	all []*Entry
	own map[*Entry][]string // the keys that each has been given
	max int64               // the highest create revision that an event has named
}

// newKinds makes a session of lease 7 that removes nothing.
func newKinds(t *testing.T, rnd *rand.Rand) *kinds {
	host := Host{Cleanup: &cleanup.Group{}, Cluster: &cluster.Cluster{}}
	host.Cleanup.Close(0)
	s := newSession(host, lease.Options{LockDelay: time.Duration(rnd.IntN(2)) * time.Second})
	s.id, s.own.key = 7, keys.SessionKey("", 7)
	s.own.create, s.own.mod = 1, 1
	s.validity.begin(clock.Now(), time.Hour)
	return &kinds{t: t, rnd: rnd, s: s, own: map[*Entry][]string{}, max: 1}
}

const permitsName = "//pawl/sem/c/"

// begin begins an entry of some kind. The mutex is held.
func (k *kinds) begin() {
	var o state.Options
	var specs []keys.Spec
	owner := false
	switch k.rnd.IntN(4) {
	case 0:
		specs = []keys.Spec{{Prefix: "a/", Form: keys.Form(k.rnd.IntN(2))}}
		o.Handoffs = specs[0].Form == keys.Exclusive
	case 1:
		specs = []keys.Spec{{Prefix: "a/"}, {Prefix: "b/", Form: keys.Shared}}
	case 2:
		specs, owner = []keys.Spec{{Prefix: "b/"}}, true
	default:
		specs, o.Limit = []keys.Spec{{Prefix: permitsName, Form: keys.Turnstile}}, 1+k.rnd.IntN(2)
	}
	e := &Entry{Machine: state.Begin(o)}
	k.s.roster.add(e, &dependent{}, false)
	k.own[e] = k.s.book.begin(e, 7, specs...)
	e.ownerKey = owner
	k.s.Step(e, state.Begun{})
	k.all = append(k.all, e)
}

// adopt resumes an entry of the predecessor's, which held it. The mutex is held.
func (k *kinds) adopt() {
	b := &k.s.book
	if b.inherited < 2 {
		return
	}
	n := 1 + k.rnd.Int64N(b.inherited-1)
	if !b.mayAdopt(n) {
		return
	}
	own := [][]string{{"a/7-%d"}, {"a/7-%d", "b/+7-%d"}, {permitsName + "s0.1.7-%d"}}[k.rnd.IntN(3)]
	own = slices.Clone(own)
	for i := range own {
		own[i] = fmt.Sprintf(own[i], n)
	}
	e := &Entry{}
	owed := b.owed[n]
	b.adopt(e, n, own)
	k.own[e] = own
	require.False(k.t, e.kept().Until.Before(owed), "what was owed to entry %d is kept", n)
	e.Machine = state.Resumed(state.Key{Name: own[0], Create: k.max}, k.max, own[1:]...)
	k.s.roster.add(e, &dependent{}, true)
	b.resumed()
	k.all = append(k.all, e)
}

// event is what may happen to e, which the engine may be told at any time. A caller gives up only after the
// answer to its enqueue, or its loss.
func (k *kinds) event(e *Entry) state.Event {
	if k.rnd.IntN(3) > 0 {
		ev := randomEvent(k.rnd, "own")
		if ev == (state.GaveUp{}) && e.Phase == state.Enqueuing && e.Late() {
			return state.AnswerLost{}
		}
		return ev
	}
	k.max++
	first := "own"
	var others []string
	if len(e.keys) > 0 {
		first = e.keys[0]
	}
	if len(e.keys) > 1 && !isSlot(e.keys[1]) {
		others = e.keys[1:]
	}
	own := state.Key{Name: first, Create: k.max}
	slot := state.Key{Name: fmt.Sprintf("%ss%d.2.7-%d", permitsName, e.Slot(), e.number), Create: k.max + 1}
	return []state.Event{
		state.Enqueued{Own: own, Others: others, Whole: k.rnd.IntN(2) == 0, Revision: k.max},
		state.Settled{Own: own, Others: others},
		state.OwnDeleted{Index: k.rnd.IntN(2)}, state.OwnChanged{Index: k.rnd.IntN(2), Create: e.Own.Create, Mod: k.max},
		state.Answered{Found: true, Revision: k.max}, state.Answered{Found: true, Revision: k.max, Taken: []state.Taken{{Slot: 0, Limit: 2}}},
		state.TakeAnswered{Outcome: state.Applied, Own: slot}, state.TakeAnswered{Outcome: state.Unknown}, state.TakeFound{Own: slot}, state.TakeFound{},
		state.SlotFreed{Revision: k.max}, state.SlotsWatchEnded{Missed: true},
		state.DeleteAnswered{Outcome: state.Refused, Remains: state.Remains{There: 1, Gone: 1}},
		state.DeleteAnswered{Outcome: state.NotApplied, Whole: true}, state.Explained{Remains: state.Remains{There: 1}},
	}[k.rnd.IntN(15)]
}

// happen has something happen to an entry. The mutex is held, except while a method is called that locks it.
func (k *kinds) happen() {
	s := k.s
	i := k.rnd.IntN(len(k.all))
	e := k.all[i]
	if !s.book.has(e) && k.rnd.IntN(3) == 0 { // it is gone, and nothing more happens to it
		k.all = slices.Delete(k.all, i, i+1)
	}
	unlocked := func(f func()) {
		s.mu.Unlock()
		defer s.mu.Lock()
		f()
	}
	left := time.Duration(1+k.rnd.IntN(1_000_000)) * time.Microsecond
	until := clock.Now().Add(left)
	switch k.rnd.IntN(12) {
	case 0:
		before := e.kept().Until
		s.Limit(e, Limits{AtLeast: left})
		require.False(k.t, e.kept().Until.Before(before) || e.kept().Until.Before(until), "of two times the later one")
	case 1:
		e.keep().Promised = later(e.keep().Promised, until)
	case 2:
		unlocked(func() { s.Retract(e) })
	case 3:
		unlocked(func() { s.GiveBack(e) })
	case 4:
		if e.Phase == state.Taking {
			k.add(e)
		}
	case 5:
		if e.removable() {
			s.absent(e)
		}
	case 6:
		if n, key := s.book.inherited-1, ""; n > 0 {
			key = fmt.Sprintf("a/7-%d", n)
			unlocked(func() {
				if s.Discard(time.Now(), key) {
					k.own[s.book.entries[n]] = []string{key}
				}
			})
		}
	case 7:
		k.adopt()
	case 8:
		k.win(e)
	default:
		had, ev := s.book.has(e), k.event(e)
		fx := s.Step(e, ev)
		require.False(k.t, had && !s.book.has(e) && !fx.Vacant && e.extras() > 0, "a cancel key or an owner key is forgotten after %T", ev)
	}
	for _, e := range k.all {
		if s.book.has(e) || e.number == 0 {
			continue
		}
		require.False(k.t, s.book.mayAdopt(e.number), "entry %d is gone, and may be resumed", e.number)
	}
}

// add gives e the key of the slot that it is about to take. The mutex is held.
func (k *kinds) add(e *Entry) (key string) {
	key = fmt.Sprintf("%ss%d.2.7-%d", permitsName, e.Slot(), e.number)
	if k.s.book.add(e, key, k.rnd.IntN(2) == 0) && !slices.Contains(k.own[e], key) {
		k.own[e] = append(k.own[e], key)
	}
	return key
}

// win tells e what makes it held, unless it is too late for that. The mutex is held.
func (k *kinds) win(e *Entry) {
	k.max++
	own := state.Key{Name: "own", Create: k.max}
	var others []string
	if len(e.keys) > 1 && !isSlot(e.keys[1]) {
		others = e.keys[1:]
	}
	k.s.Step(e, state.Enqueued{Own: own, Others: others, Whole: true, Revision: k.max})
	k.s.Step(e, state.Answered{Found: true, Revision: k.max})
	if e.Phase == state.Taking {
		key := k.add(e)
		k.max++
		k.s.Step(e, state.TakeAnswered{Outcome: state.Applied, Own: state.Key{Name: key, Create: k.max}})
	}
	k.s.Step(e, state.Won{})
}

// keys are those of all entries in some state, in order.
func (k *kinds) keys(in func(e *Entry) bool) (all []string) {
	for _, e := range k.s.book.entries {
		if in(e) {
			all = append(all, k.own[e]...)
		}
	}
	slices.Sort(all)
	return all
}

// end ends the session. Its entries learn of that one by one, and some learn more, too late.
func (k *kinds) end() {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended.Store(&lease.ErrClosed)
	for _, d := range s.roster.close() {
		require.NotNil(k.t, d)
	}
	for _, e := range k.all {
		for range k.rnd.IntN(3) {
			s.Step(e, k.event(e))
			require.Empty(k.t, s.wrong())
		}
		s.Step(e, state.EndOfSession{})
		require.Empty(k.t, s.wrong())
	}
}

// succeed ends the session, checks its Handle, and makes its successor.
func (k *kinds) succeed() *kinds {
	s, t := k.s, k.t
	k.end()
	written := s.state(nil)
	written.Cluster = 1
	written, err := stateOf(handleOf(written))
	require.NoError(t, err)
	require.Equal(t, append([]string(nil), k.keys(func(e *Entry) bool { return e.Phase != state.Held })...), written.ToRemove,
		"a Handle lists whatever may exist and is not held")
	held := int64(0)
	for _, e := range s.book.entries {
		if e.Phase == state.Held {
			held++
		}
	}
	require.Equal(t, held+s.book.unresumed, written.Held, "and says how much else there is")
	next := newKinds(t, k.rnd)
	next.max, next.s.validity.delay = k.max, s.validity.delay
	b := &next.s.book
	require.NoError(t, b.inherit(7, written.Next, written.ToRemove, written.Lost, written.Held))
	for _, kept := range written.Kept {
		require.Greater(t, kept.Left, time.Duration(0))
		if e := b.entries[kept.N]; e != nil {
			e.keep().Until = clock.Now().Add(kept.Left)
		} else {
			b.owed[kept.N] = clock.Now().Add(kept.Left)
		}
	}
	require.Empty(t, next.s.wrong(), "of the successor")
	for n, until := range s.book.owed {
		require.True(t, !clock.Now().Before(until) || !b.owed[n].Before(until), "entry %d: what nobody has resumed is owed all the same", n)
	}
	for n, e := range s.book.entries {
		require.Equal(t, e.Phase == state.Held, b.mayAdopt(n), "entry %d in phase %d: what was held can be resumed, and nothing else", n, e.Phase)
		if until := e.kept().Until; e.Phase == state.Held && clock.Now().Before(until) {
			require.False(t, b.owed[n].Before(until), "entry %d: what AtLeast keeps is owed", n)
		} else if other := b.entries[n]; other != nil && clock.Now().Before(until) {
			require.False(t, other.kept().Until.Before(until), "entry %d: what AtLeast keeps stays with the successor", n)
		}
		if other := b.entries[n]; other != nil {
			require.Equal(t, e.lost(), other.lost(), "entry %d", n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(b.entries)) {
		next.all, next.own[b.entries[n]] = append(next.all, b.entries[n]), b.entries[n].keys
	}
	return next
}

// Locks, sets, candidates and permits, kept, promised, adopted and discarded, through several takeovers:
// whatever happens to them in any order, all invariants hold after each step, what may exist and is not held
// is in the Handle, and only what was held can be resumed by the successor.
// rule: N6, A6, ML8
func TestTheBookAgreesWhateverKindsOfEntriesItHas(t *testing.T) {
	reached := map[string]bool{}
	for seed := range testscale.Of(uint64(12), 200) {
		synctest.Test(t, func(t *testing.T) {
			k := newKinds(t, rand.New(rand.NewPCG(seed, 1)))
			for life := range 4 {
				k.s.mu.Lock()
				for range 150 {
					if len(k.all) == 0 || k.rnd.IntN(8) == 0 {
						k.begin()
					} else {
						k.happen()
					}
					require.Empty(t, k.s.wrong(), "seed %d, session %d", seed, life)
					k.note(reached)
				}
				k.s.mu.Unlock()
				k = k.succeed()
			}
			k.end()
		})
	}
	for _, what := range []string{"a set is held", "a set is lost", "a permit is held", "a permit is tried", "an owner key goes", "adopted and held", "kept after its release", "promised"} {
		assert.True(t, reached[what], "it never comes to this: %s", what)
	}
}

// note notes what entries have come to, so that the test shows that it reaches it.
func (k *kinds) note(reached map[string]bool) {
	for _, e := range k.s.book.entries {
		set := len(e.keys) > 1 && !isSlot(e.keys[1])
		for what, is := range map[string]bool{
			"a set is held":          set && e.Phase == state.Held,
			"a set is lost":          set && e.lost() && !e.kept().Unclaimed.IsZero(),
			"a permit is held":       e.Phase == state.Held && slices.ContainsFunc(e.keys, isSlot),
			"a permit is tried":      e.Phase < state.Held && slices.ContainsFunc(e.keys, isSlot),
			"an owner key goes":      e.ownerKey && e.removable(),
			"adopted and held":       e.number < k.s.book.inherited && e.Phase == state.Held,
			"kept after its release": e.End == state.GivenBack && !e.kept().Until.IsZero(),
			"promised":               !e.kept().Promised.IsZero(),
		} {
			reached[what] = reached[what] || is
		}
	}
}
