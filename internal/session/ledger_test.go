package session

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// The decision's page has the same table as the ledger.
func TestTheTableOfTheDecisionIsWhatTheLedgerDoes(t *testing.T) {
	page, err := os.ReadFile("../../docs/decisions/session-ledger.md")
	require.NoError(t, err)
	states := map[string]state{"gone": gone, "open": open, "answered": answered, "held": held, "undoing": undoing, "leaving": leaving, "lost": lost, "inherited": inherited}
	columns := []Fact{Answered, won, Unwanted, Unreleased, Absent, resumed}
	_, rows, found := strings.Cut(string(page), "| from | answered | won | unwanted | unreleased | absent | resumed |\n|---|---|---|---|---|---|---|\n")
	require.True(t, found)
	listed := 0
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) != len(columns)+3 {
			break
		}
		st, ok := states[regexp.MustCompile(`\w+`).FindString(cells[1])]
		require.True(t, ok, row)
		listed++
		for i, ev := range columns {
			want, has := states[strings.TrimSpace(cells[2+i])]
			got, ok := moves[ev][st]
			assert.Equal(t, has, ok, "fact %d: %s", ev, row)
			assert.Equal(t, want, got, "fact %d: %s", ev, row)
		}
	}
	assert.Equal(t, len(states)-1, listed, "all but gone")
	for _, next := range moves {
		assert.NotContains(t, next, gone, "nothing changes it")
	}
}

// An entry that has to be removed is never held again, and one that is gone stays gone. The table
// itself guarantees this, for any evidence in any order.
func TestNoFactBringsAnEntryBack(t *testing.T) {
	rank := map[state]int{inherited: 0, open: 0, answered: 1, held: 2, undoing: 3, leaving: 4, lost: 4, gone: 5}
	for st, r := range rank {
		for ev := Answered; ev <= Absent; ev++ {
			if after, ok := moves[ev][st]; ok {
				assert.Greater(t, rank[after], r, "%d after %d", st, ev)
			}
		}
	}
}

// A2, RW5, ML8: what Alone relies on, and what a Handle carries, agree with a count of the entries that
// is made again each time, with keys of all forms, and several names at once.
// rule: RW5
func TestTheLedgerAgreesWithACountOfItsEntries(t *testing.T) {
	for seed := range testscale.Of(uint64(9), 50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		l := newLedger()
		var first int64 = 1
		if seed%3 == 0 {
			first = 4
			require.NoError(t, l.inherit(7, first, []string{"a/+7-1", "b/7-3", "a/7-3"}, nil))
		}
		begun := map[int64][]string{} // the names of every entry ever begun here
		for range 300 {
			if rnd.IntN(3) == 0 {
				var specs []keys.Spec
				names := []string{"a/", "b/", "a/b/"}
				rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				for _, name := range names[:1+rnd.IntN(len(names))] {
					specs = append(specs, keys.Spec{Prefix: name, Form: keys.Form(rnd.IntN(3))})
				}
				n, own := l.begin(7, specs...)
				for i, p := range specs {
					assert.Equal(t, fmt.Sprintf("%s%s7-%d", p.Prefix, []string{"", "+", "q"}[p.Form], n), own[i])
					begun[n] = append(begun[n], p.Prefix)
				}
			} else {
				n := rnd.Int64N(l.next) + 1
				l.move(n, Fact(rnd.IntN(6)), []string{fmt.Sprintf("a/7-%d", n)})
			}
			live, unsettled := map[string][]int64{}, []string{}
			for n := int64(1); n < l.next; n++ {
				e := l.entries[n]
				if st := l.state(n); st == gone || st == inherited {
					continue
				}
				for _, key := range e.keys {
					name, _ := keys.Split(key)
					live[name] = append(live[name], n)
				}
				if e.state != held {
					unsettled = append(unsettled, e.keys...)
				}
			}
			slices.Sort(unsettled)
			require.Equal(t, unsettled, append([]string{}, l.toRemove(nil)...))
			for n, names := range begun {
				for _, name := range names {
					want := first == 1 && len(live[name]) == 1 && live[name][0] == n
					for later, others := range begun {
						want = want && !(later > n && slices.Contains(others, name))
					}
					require.Equal(t, want, l.alone(n, name), "entry %d of %q: %v", n, name, live)
				}
			}
		}
	}
}

// ML8: the keys of one number are one entry, adopted and undone as one.
// rule: ML8
func TestASetOfKeysIsOneEntry(t *testing.T) {
	l := newLedger()
	require.NoError(t, l.inherit(7, 5, []string{"a/7-2", "b/+7-2", "//pawl/sem/c/q7-3", "//pawl/sem/c/s1.4.7-3"}, nil))
	assert.Len(t, l.entries, 2)
	assert.Equal(t, 2, l.removalOps(2), "two deletions: the session key refuses late copies")
	assert.Equal(t, count{1, 3}, l.counts["//pawl/sem/c/"], "a turnstile and a slot are one entry of the name")
	require.True(t, l.move(4, resumed, []string{"a/7-4", "b/7-4"}))
	assert.Equal(t, count{2, 4}, l.counts["a/"])
	assert.True(t, l.move(4, Unwanted, nil))
	assert.Equal(t, 2, l.removalOps(4))
	assert.True(t, l.move(4, Absent, nil))
	assert.Equal(t, count{1, 4}, l.counts["b/"])
	assert.Equal(t, []string{"//pawl/sem/c/q7-3", "//pawl/sem/c/s1.4.7-3", "a/7-2", "b/+7-2"}, l.toRemove(nil))
	assert.Equal(t, []string{"a/7-2", "b/+7-2"}, l.toRemove(map[string]bool{"//pawl/sem/c/s1.4.7-3": true}), "it is kept whole")
}

func TestAPredecessorsEntryIsResumedOnceEvenAfterItsEnd(t *testing.T) {
	l := newLedger()
	require.NoError(t, l.inherit(7, 5, []string{"a/7-2"}, nil))
	assert.False(t, l.move(2, resumed, []string{"a/7-2"}), "it was open: it is undone, and nobody's")
	assert.True(t, l.move(3, resumed, []string{"a/7-3"}))
	assert.False(t, l.move(3, resumed, []string{"a/7-3"}))
	assert.True(t, l.move(3, Absent, nil))
	assert.False(t, l.move(3, resumed, []string{"a/7-3"}))
	assert.False(t, l.move(3, Unwanted, nil))
	assert.False(t, l.move(5, resumed, []string{"a/7-5"}), "its own")
	assert.False(t, l.move(0, resumed, []string{"a/7-0"}))
	assert.Equal(t, []string{"a/7-2"}, l.toRemove(nil))
}

// LD3: a Handle tells each successor what was held and not released.
func TestAHandleListsWhatWasNotReleased(t *testing.T) {
	l := newLedger()
	n, key := l.begin(7, keys.Spec{Prefix: "a/"})
	assert.False(t, l.move(n, Unreleased, nil), "it is not held")
	assert.True(t, l.move(n, won, nil))
	assert.True(t, l.move(n, Unreleased, nil))
	assert.False(t, l.move(n, Unwanted, nil), "that it leaves takes nothing from it")
	assert.Equal(t, 1, l.removalOps(n))
	assert.True(t, l.keepsAny())
	assert.Equal(t, key, l.toRemove(nil))
	assert.Equal(t, []int64{n}, l.losses())
	next := newLedger()
	other, _ := l.begin(7, keys.Spec{Prefix: "a/"})
	require.NoError(t, next.inherit(7, l.next, l.toRemove(nil), l.losses()))
	assert.Equal(t, lost, next.state(n))
	assert.Equal(t, leaving, next.state(other))
	assert.Equal(t, []int64{n}, next.losses(), "and by the successor's successor")
	assert.True(t, l.move(n, Absent, nil))
	assert.Zero(t, l.removalOps(n))
	assert.Empty(t, l.losses())
}

// Every key that is removed with an entry counts as an operation, because a server refuses more than it
// allows.
func TestAnOwnerKeyIsCountedWithItsEntry(t *testing.T) {
	l := newLedger()
	n, _ := l.begin(7, keys.Spec{Prefix: "a/"})
	l.putsOwnerKey(n)
	assert.True(t, l.move(n, Unwanted, nil))
	assert.Equal(t, 3, l.removalOps(n), "its cancel key, and two deletions")
	assert.True(t, l.move(n, Answered, nil))
	assert.Equal(t, 2, l.removalOps(n))
}

func TestWhatIsNotOfTheLeaseIsNotInherited(t *testing.T) {
	for _, key := range []string{"precious/1-1", "a/7-x", "a/7", "a/7-0", "a/7--1", "a/7-5", "a/7-9223372036854775808"} {
		l := newLedger()
		assert.ErrorContains(t, l.inherit(7, 5, []string{key}, nil), "is not of lease", key)
	}
}

// A Handle has its lists in order, whatever the order of a map, because Parse refuses others.
func TestTheListsOfAHandleAreInOrder(t *testing.T) {
	l := newLedger()
	now := clock.Now()
	for range 50 {
		n, _ := l.begin(1, keys.Spec{Prefix: "a/"})
		l.keeping(n, func(k *Keep) { k.Until = now.Add(time.Second) })
		require.True(t, l.move(n, Answered, nil))
		require.True(t, l.move(n, won, nil))
		require.True(t, l.move(n, Unreleased, nil))
	}
	losses, kept := l.losses(), l.keeps(now)
	require.Len(t, losses, 50)
	require.Len(t, kept, 50)
	assert.True(t, slices.IsSorted(losses))
	assert.True(t, slices.IsSorted(l.toRemove(nil)))
	assert.True(t, slices.IsSortedFunc(kept, func(x, y detached.Kept) int { return cmp.Compare(x.N, y.N) }))
}
