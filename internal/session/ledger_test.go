package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The whole table: whatever is not in it changes nothing.
func TestEachPieceOfEvidenceMovesAnEntryAsTheTableSays(t *testing.T) {
	table := map[state]map[evidence]state{
		open:    {shown: there, won: held, unwanted: undoing, absent: gone},
		there:   {won: held, unwanted: leaving, absent: gone},
		held:    {unwanted: leaving, absent: gone},
		undoing: {shown: leaving, absent: gone},
		leaving: {absent: gone},
		left:    {resumed: held},
	}
	for _, st := range []state{gone, open, there, held, undoing, leaving, left} {
		for _, ev := range []evidence{shown, won, resumed, unwanted, absent} {
			want, moves := table[st][ev]
			got, ok := st.after(ev)
			assert.Equal(t, moves, ok, "%d after %d", st, ev)
			if moves {
				assert.Equal(t, want, got, "%d after %d", st, ev)
			} else {
				assert.Equal(t, st, got)
			}
		}
	}
}

// What is to be removed is never held again, and what is gone stays gone: by the
// table itself, whatever evidence comes in whatever order.
func TestNoEvidenceBringsAnEntryBack(t *testing.T) {
	rank := map[state]int{left: 0, open: 0, there: 1, held: 2, undoing: 3, leaving: 4, gone: 5}
	for st, r := range rank {
		for _, ev := range []evidence{shown, won, resumed, unwanted, absent} {
			after, ok := st.after(ev)
			assert.Equal(t, ok, rank[after] > r, "%d after %d", st, ev)
		}
	}
}

// A2: what Sole rests on, and what a Handle carries, against a count of the
// entries that is made anew each time.
func TestTheLedgerAgreesWithACountOfItsEntries(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		l := newLedger()
		var first int64 = 1
		if seed%3 == 0 {
			first = 4
			require.NoError(t, l.inherit(7, first, []string{"a/7-1", "b/7-3"}))
		}
		begun := map[int64]string{} // the name of every entry ever begun here
		for range 300 {
			if rnd.IntN(3) == 0 {
				name := []string{"a/", "b/", "a/b/"}[rnd.IntN(3)]
				n, key := l.begin(7, name)
				assert.Equal(t, fmt.Sprintf("%s7-%d", name, n), key)
				begun[n] = name
			} else {
				n := rnd.Int64N(l.next) + 1
				l.move(n, evidence(rnd.IntN(6)), fmt.Sprintf("a/7-%d", n))
			}
			live, unsettled := map[string][]int64{}, []string{}
			for n := int64(1); n < l.next; n++ {
				e := l.entries[n]
				if st := l.state(n); st == gone || st == left {
					continue
				}
				live[e.name] = append(live[e.name], n)
				if e.state != held {
					unsettled = append(unsettled, e.key)
				}
			}
			slices.Sort(unsettled)
			require.Equal(t, unsettled, append([]string{}, l.unsettled()...))
			for n, name := range begun {
				want := first == 1 && len(live[name]) == 1 && live[name][0] == n
				for later, other := range begun {
					want = want && !(later > n && other == name)
				}
				require.Equal(t, want, l.alone(n, name), "entry %d of %q: %v", n, name, live)
			}
		}
	}
}

func TestAPredecessorsEntryIsResumedOnceEvenAfterItsEnd(t *testing.T) {
	l := newLedger()
	require.NoError(t, l.inherit(7, 5, []string{"a/7-2"}))
	assert.False(t, l.move(2, resumed, "a/7-2"), "it was open: it is undone, and nobody's")
	assert.True(t, l.move(3, resumed, "a/7-3"))
	assert.False(t, l.move(3, resumed, "a/7-3"))
	assert.True(t, l.move(3, absent, ""))
	assert.False(t, l.move(3, resumed, "a/7-3"))
	assert.False(t, l.move(3, unwanted, ""))
	assert.False(t, l.move(5, resumed, "a/7-5"), "its own")
	assert.False(t, l.move(0, resumed, "a/7-0"))
	assert.Equal(t, []string{"a/7-2"}, l.unsettled())
}

// A key that was held for too long is removed with its mark, and by a successor too.
func TestWhatWasHeldForTooLongIsForfeit(t *testing.T) {
	l := newLedger()
	n, key := l.begin(7, "a/")
	assert.False(t, l.move(n, overheld, ""), "it is not held")
	assert.True(t, l.move(n, won, ""))
	assert.True(t, l.move(n, overheld, ""))
	assert.False(t, l.move(n, unwanted, ""), "that it leaves takes nothing from it")
	assert.Equal(t, 2, l.removalOps(n), "the mark, and the deletion")
	assert.Equal(t, []string{key}, l.unsettled())
	assert.True(t, l.move(n, absent, ""))
	assert.Zero(t, l.removalOps(n))
}

func TestWhatIsNotOfTheLeaseIsNotInherited(t *testing.T) {
	for _, key := range []string{"precious/1-1", "a/7-x", "a/7", "a/7-0", "a/7--1", "a/7-5", "a/7-9223372036854775808"} {
		l := newLedger()
		assert.ErrorContains(t, l.inherit(7, 5, []string{key}), "is not of lease", key)
	}
}
