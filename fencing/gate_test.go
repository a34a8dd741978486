package fencing

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func refused(t *testing.T, err error, want StaleError) {
	t.Helper()
	var stale *StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, want, *stale)
}

func TestGateAdmitsEqualAndGreaterTokensOnly(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("jobs/42", 41))
	require.NoError(t, g.Admit("jobs/42", 41))
	require.NoError(t, g.Admit("jobs/42", 57))
	refused(t, g.Admit("jobs/42", 41), StaleError{"jobs/42", 41, 57})
	require.NoError(t, g.Admit("jobs/42", 57))
}

func TestGateKeepsResourcesApart(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("a", 57))
	require.NoError(t, g.Admit("b", 41))
	refused(t, g.Admit("a", 41), StaleError{"a", 41, 57})
}

func TestGateRefusesNoTokenAndNoResourceAndRemembersNothingOfThem(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("a", 5))
	before := g.Snapshot()
	assert.ErrorIs(t, g.Admit("a", 0), ErrNoToken)
	assert.ErrorIs(t, g.Admit("a", -1), ErrNoToken)
	assert.ErrorIs(t, g.Admit("b", -1), ErrNoToken)
	assert.ErrorIs(t, g.Admit("", 7), ErrNoResource)
	assert.Equal(t, string(before), string(g.Snapshot()))
}

func TestGateForgetsAtItsLimitAndStillRefusesWhatItRefused(t *testing.T) {
	g := Gate{Limit: 2}
	require.NoError(t, g.Admit("a", 10))
	require.NoError(t, g.Admit("b", 20))
	require.NoError(t, g.Admit("c", 30)) // a is forgotten: the floor is 10
	require.Len(t, g.ring, 2)
	refused(t, g.Admit("a", 9), StaleError{"a", 9, 10})
	refused(t, g.Admit("never seen", 9), StaleError{"never seen", 9, 10})
	require.NoError(t, g.Admit("a", 10))
}

func TestGateOfManyResourcesKeepsItsLimit(t *testing.T) {
	g := Gate{Limit: 100}
	for i := range 100_000 {
		require.NoError(t, g.Admit(strconv.Itoa(i), Token(1+i)))
	}
	known := 0
	g.known.Range(func(any, any) bool { known++; return true })
	assert.Equal(t, 100, known)
	assert.Len(t, g.ring, 100)
	assert.Equal(t, pair{100_000 - 100, 100_000 - 100}, g.floor)
}

func TestKnownResourceIsCheckedWithoutTheLock(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("a", 10))
	g.mu.Lock()
	defer g.mu.Unlock()
	require.NoError(t, g.Admit("a", 20))
	refused(t, g.Admit("a", 19), StaleError{"a", 19, 20})
}

func TestGateForgetsWhatWasNotUsedSinceTheLastSweep(t *testing.T) {
	g := Gate{Limit: 3}
	require.NoError(t, g.Admit("leader", 1))
	for i := range 100 {
		require.NoError(t, g.Admit(fmt.Sprint("job", i), Token(100+i)))
		require.NoError(t, g.Admit("leader", 1), "a holder that keeps writing is remembered")
	}
	require.Len(t, g.ring, 3)
}

func TestForgottenEntryCannotBeRaisedByACallThatStillHoldsIt(t *testing.T) {
	g := Gate{Limit: 1}
	require.NoError(t, g.Admit("a", 10))
	v, _ := g.known.Load("a") // as Admit does, before it is preempted
	require.NoError(t, g.Admit("b", 5))
	assert.Equal(t, Token(forgotten), v.(*registers).admit(20, false), "raised, it would be lost with the entry")
	assert.Equal(t, Token(forgotten), v.(*registers).admit(20, true), "raised, it would be lost with the entry")
	require.NoError(t, g.Admit("a", 20))
	refused(t, g.Admit("a", 19), StaleError{"a", 19, 20})
}

func TestRefuseBelowHoldsForUnknownResourcesAndNeverLowers(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("known", 10))
	g.RefuseBelow(50)
	g.RefuseBelow(20)
	g.RefuseBelow(-1 << 63)
	refused(t, g.Admit("new", 49), StaleError{"new", 49, 50})
	refused(t, g.AdmitShared("new", 49), StaleError{"new", 49, 49})
	require.NoError(t, g.AdmitShared("new", 50))
	require.NoError(t, g.Admit("new", 50))
	require.NoError(t, g.Admit("known", 10))
}

// The dumb second implementation: it remembers everything.
type truth map[string]pair

func (m truth) stale(resource string, t Token, shared bool) bool {
	if shared {
		return t <= m[resource].exclusive
	}
	return t < m[resource].highest
}

func (m truth) admitted(resource string, t Token, shared bool) {
	p := pair{t, t}
	if shared {
		p.exclusive = 0
	}
	m[resource] = m[resource].max(p)
}

func (m truth) greatest() (t Token) {
	for _, seen := range m {
		t = max(t, seen.highest)
	}
	return t
}

func TestGateNeverAdmitsWhatAGateThatForgetsNothingRefuses(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testscale.Seed(t), 0))
	g := &Gate{Limit: 7}
	all := truth{}
	var saved [][]byte
	for range 20_000 {
		resource, token, shared := fmt.Sprint(rnd.IntN(25)), Token(1+rnd.IntN(300)), rnd.IntN(2) == 0
		switch err := g.admit(resource, token, shared); {
		case err == nil:
			require.False(t, all.stale(resource, token, shared), "%s %d %t", resource, token, shared)
			all.admitted(resource, token, shared)
		default: // right, or by a floor, which was the highest of some resource
			var stale *StaleError
			require.ErrorAs(t, err, &stale)
			require.GreaterOrEqual(t, stale.Highest, token)
			require.True(t, shared || stale.Highest > token)
			require.LessOrEqual(t, stale.Highest, all.greatest())
		}
		switch rnd.IntN(200) {
		case 0:
			saved = append(saved, g.Snapshot())
		case 1: // a restart: nothing that was saved may make up for less than the last state
			last := g.Snapshot()
			g = &Gate{Limit: 1 + rnd.IntN(9)}
			for _, i := range rnd.Perm(len(saved)) {
				require.NoError(t, g.Restore(saved[i]))
			}
			require.NoError(t, g.Restore(last))
			for _, i := range rnd.Perm(min(len(saved), 3)) {
				require.NoError(t, g.Restore(saved[i]), "an older snapshot lowers nothing")
			}
		case 2:
			all, g, saved = truth{}, &Gate{Limit: 7}, nil
		}
	}
}

func TestGateUnderConcurrencyNeverAdmitsAfterAGreaterTokenReturned(t *testing.T) {
	g := Gate{Limit: 3} // small, so that entries are forgotten while others raise them
	const workers, rounds, resources = 8, 3000, 6
	var mu sync.Mutex
	admitted := truth{} // what has returned
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { // ends after its rounds
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range rounds {
				resource, token, shared := fmt.Sprint(rnd.IntN(resources)), Token(1+i/10+rnd.IntN(20)), rnd.IntN(2) == 0
				mu.Lock()
				stale := admitted.stale(resource, token, shared)
				mu.Unlock()
				if err := g.admit(resource, token, shared); err != nil {
					continue
				}
				if !assert.False(t, stale, "admitted after a greater one had returned") {
					return
				}
				mu.Lock()
				admitted.admitted(resource, token, shared)
				mu.Unlock()
			}
		})
	}
	wg.Go(func() { // ends after its rounds
		for range 200 {
			var other Gate
			assert.NoError(t, other.Restore(g.Snapshot()))
		}
	})
	wg.Wait()
	require.LessOrEqual(t, len(g.ring), 3)
}

func TestAdmitOfAKnownResourceAllocatesNothing(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("jobs/42", 57))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = g.Admit("jobs/42", 57) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = g.AdmitShared("jobs/42", 58) }))
}
