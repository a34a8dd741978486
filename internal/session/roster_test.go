package session

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The list is compared with a slice.
func TestRingKeepsOrderUnderPushAndDrop(t *testing.T) {
	var r ring
	hooks := make([]Entry, 50)
	var model []*Entry
	for i := range 2000 {
		h := &hooks[(i*7919)%len(hooks)]
		if h.in != nil {
			h.leave()
			for j, m := range model {
				if m == h {
					model = append(model[:j:j], model[j+1:]...)
					break
				}
			}
		} else {
			r.push(h)
			model = append(model, h)
		}
		var got []*Entry
		for h := r.first; h != nil; h = h.next {
			got = append(got, h)
		}
		require.Equal(t, len(model), r.n)
		require.True(t, slices.Equal(model, got))
	}
	assert.Len(t, r.take(), len(model))
	assert.Zero(t, r.n)
	assert.Nil(t, r.first)
	assert.Nil(t, r.last)
}

// Rules N1, A4: of many dependents, all that wait are in every round, and those that are held take
// turns, so that each is in one of the next few rounds.
func TestARoundHasAllThatWaitAndTheHeldInTurn(t *testing.T) {
	r := newRoster(func() {})
	hooks := make([]Entry, 300)
	for i := range hooks {
		r.add(&hooks[i], &dependent{}, i >= 20)
	}
	seen := map[Dependent]int{}
	for range 4 {
		round := r.round(127)
		assert.Len(t, round, 127-2*20+20)
		for _, c := range round {
			seen[c]++
		}
	}
	for i := range hooks {
		if i < 20 {
			assert.Equal(t, 4, seen[hooks[i].dependent], "it waits")
		} else {
			assert.Contains(t, []int{1, 2}, seen[hooks[i].dependent])
		}
	}
}

func TestAClosedRosterGivesEachDependentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := false
		r := newRoster(func() { woken = true })
		waits, holds, dropped := &Entry{}, &Entry{}, &Entry{}
		a, b, c := &dependent{own: "a"}, &dependent{own: "b"}, &dependent{own: "c"}
		r.add(waits, a, false)
		r.add(holds, b, false)
		r.add(holds, b, true)
		r.add(dropped, c, true)
		dropped.leave()
		r.armLater(holds, time.Now())
		assert.Equal(t, []Dependent{a, b}, r.close())
		assert.Empty(t, r.close())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.False(t, woken, "nothing is to be armed")
	})
}

// H4: endInTime learns of every hold that has ended, and not before it has, and it wakes for the first
// one.
func TestHoldsWithALimitEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoster(func() {})
		began, now := time.Now(), clock.Now()
		later := began.Add(time.Hour)
		over, next := r.overdue(now, later)
		assert.Empty(t, over)
		assert.Equal(t, later, next)
		hooks, dependents := make([]Entry, 4), []Dependent{&dependent{own: "a"}, &dependent{own: "b"}, &dependent{own: "c"}, &dependent{own: "d"}}
		for i := range hooks {
			r.add(&hooks[i], dependents[i], true)
		}
		assert.True(t, r.limit(&hooks[2], &Bound{Stall: 3 * time.Second, began: now}, now), "the loop sleeps for an hour")
		r.limit(&hooks[0], &Bound{Max: 2 * time.Second, began: now}, now)
		r.limit(&hooks[1], &Bound{Max: time.Second, began: now}, now)
		hooks[1].leave() // released
		over, next = r.overdue(now.Add(2*time.Second-1), later)
		assert.Empty(t, over)
		assert.Equal(t, began.Add(2*time.Second), next)
		assert.False(t, r.limit(&hooks[3], &Bound{Max: 3 * time.Second, began: now}, now), "the loop wakes before")
		over, next = r.overdue(now.Add(3*time.Second), later)
		assert.Equal(t, []Dependent{dependents[0], dependents[2], dependents[3]}, over)
		assert.Equal(t, later, next)
		assert.True(t, hooks[2].Bound().Progress(now.Add(2*time.Second)))
		over, next = r.overdue(now.Add(3*time.Second), later)
		assert.Equal(t, []Dependent{dependents[0], dependents[3]}, over)
		assert.Equal(t, began.Add(5*time.Second), next, "there was progress")
	})
}

// A Progress reads the clock in time, and is recorded when the end of its hold was already found to have passed.
// Then the hold goes on, and its new end is waited for.
//
// rule: H6
func TestAHoldWithAProgressThatIsRecordedLateEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, now := time.Now(), clock.Now()
		s := &Session{roster: newRoster(func() {})}
		d := &dependent{own: "a"}
		b := &Bound{Stall: 3 * time.Second, began: now}
		s.roster.add(&d.entry, d, true)
		s.roster.limit(&d.entry, b, now)
		d.onOver = func() { b.Progress(now.Add(2 * time.Second)) }
		time.Sleep(3 * time.Second)
		assert.Equal(t, began.Add(5*time.Second), s.endHolds(clock.Now(), began.Add(time.Hour)))
	})
}

// H4: dependents are armed to the nanosecond and in order, except those that were dropped.
func TestWhatIsDueIsArmedInOrder(t *testing.T) {
	r := newRoster(func() {})
	began := time.Now()
	hooks, dependents := make([]Entry, 3), []Dependent{&dependent{own: "a"}, &dependent{own: "b"}, &dependent{own: "c"}}
	for i := range hooks {
		r.add(&hooks[i], dependents[i], true)
		r.armLater(&hooks[i], began.Add(time.Duration(i)))
	}
	hooks[1].leave()
	due, next := r.due(began.Add(ArmDelay - 1))
	assert.Empty(t, due)
	assert.Equal(t, began.Add(ArmDelay), next)
	due, next = r.due(began.Add(ArmDelay))
	assert.Equal(t, dependents[:1], due)
	assert.Equal(t, began.Add(ArmDelay+2), next, "the dropped one is passed over")
	due, next = r.due(began.Add(time.Hour))
	assert.Equal(t, dependents[2:], due)
	assert.Zero(t, next)
}
