package fencing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestRestoredGateRefusesWhatItRefusedBefore(t *testing.T) {
	var g Gate
	names := []string{"jobs/42", "with space 7", "line\nbreak", "\xff\x00", `"quoted"`, strings.Repeat("x", MaxResource)}
	for i, name := range names {
		require.NoError(t, g.Admit(name, Token(100+i)))
	}
	g.RefuseBelow(9)

	var again Gate
	require.NoError(t, again.Restore(g.Snapshot()))
	for i, name := range names {
		refused(t, again.Admit(name, Token(99+i)), StaleError{name, Token(99 + i), Token(100 + i)})
		require.NoError(t, again.Admit(name, Token(100+i)))
	}
	refused(t, again.Admit("new", 8), StaleError{"new", 8, 9})
	assert.Equal(t, string(g.Snapshot()), string(again.Snapshot()))
}

func TestSnapshotIsStableText(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("b", 2))
	require.NoError(t, g.Admit("a", 1))
	require.NoError(t, g.AdmitShared("b", 3))
	assert.Equal(t, "pawl gate 2\nfloor 0 0\n\"a\" 1 1\n\"b\" 3 2\nsum 64a718a2\n", string(g.Snapshot()))
}

func TestSnapshotOfBeforeSharedTokensIsRestoredAsExclusiveOnes(t *testing.T) {
	var g Gate
	require.NoError(t, g.Restore([]byte("pawl gate 1\nfloor 0\n\"a\" 1\n\"b\" 2\nsum 0182b1c2\n")))
	refused(t, g.AdmitShared("b", 2), StaleError{"b", 2, 2})
	require.NoError(t, g.AdmitShared("b", 3))
	refused(t, g.Admit("b", 2), StaleError{"b", 2, 3})
}

func TestRestoredGateKeepsBothRegistersOfEachResourceAndOfTheFloor(t *testing.T) {
	g := Gate{Limit: 1}
	require.NoError(t, g.Admit("gone", 10))
	require.NoError(t, g.AdmitShared("gone", 20))
	require.NoError(t, g.Admit("a", 30))
	require.NoError(t, g.AdmitShared("a", 40))
	var again Gate
	require.NoError(t, again.Restore(g.Snapshot()))
	refused(t, again.AdmitShared("gone", 10), StaleError{"gone", 10, 10})
	refused(t, again.Admit("gone", 19), StaleError{"gone", 19, 20})
	require.NoError(t, again.AdmitShared("gone", 11), "nobody with an exclusive token came after it")
	refused(t, again.AdmitShared("a", 30), StaleError{"a", 30, 30})
	refused(t, again.Admit("a", 39), StaleError{"a", 39, 40})
	require.NoError(t, again.AdmitShared("a", 31))
}

func TestRestoreNeverLowers(t *testing.T) {
	var old, g Gate
	require.NoError(t, old.Admit("a", 10))
	require.NoError(t, g.Admit("a", 20))
	require.NoError(t, g.Restore(old.Snapshot()))
	refused(t, g.Admit("a", 15), StaleError{"a", 15, 20})
}

func TestRestoreMindsTheFloorsOfBothGates(t *testing.T) {
	var old, g Gate
	require.NoError(t, old.Admit("a", 10))
	g.RefuseBelow(50) // it may have forgotten a at anything up to 50
	require.NoError(t, g.Restore(old.Snapshot()))
	refused(t, g.Admit("a", 49), StaleError{"a", 49, 50})

	var floored, knows Gate
	floored.RefuseBelow(50)
	require.NoError(t, knows.Admit("b", 10))
	require.NoError(t, knows.Restore(floored.Snapshot()))
	refused(t, knows.Admit("b", 49), StaleError{"b", 49, 50})
}

func TestRestoreOfMoreThanTheLimitForgetsByTheRule(t *testing.T) {
	var big Gate
	for i := range 100 {
		require.NoError(t, big.Admit(fmt.Sprint(i), Token(1000+i)))
	}
	small := Gate{Limit: 10}
	require.NoError(t, small.Restore(big.Snapshot()))
	require.Len(t, small.ring, 10)
	for i := range 100 {
		var stale *StaleError
		require.ErrorAs(t, small.Admit(fmt.Sprint(i), Token(999+i)), &stale)
	}
}

func TestRestoreRefusesACutOrChangedSnapshotWhole(t *testing.T) {
	var g Gate
	require.NoError(t, g.Admit("a", 10))
	require.NoError(t, g.Admit("b", 20))
	good := string(g.Snapshot())
	bad := []string{"", "\n", "pawl gate 1\n", "hello", good + "\n", good + good, strings.Replace(good, "10", "11", 1)}
	for n := range len(good) {
		bad = append(bad, good[:n])
	}
	for _, b := range bad {
		var again Gate
		assert.ErrorIs(t, again.Restore([]byte(b)), ErrSnapshot, "%q", b)
		assert.Empty(t, again.ring)
	}
}

func FuzzRestoreNeverPanics(f *testing.F) {
	var g Gate
	_ = g.Admit("jobs/42", 57)
	f.Add(g.Snapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		var g Gate
		if g.Restore(b) == nil {
			var again Gate
			require.NoError(t, again.Restore(g.Snapshot()))
		}
	})
}
