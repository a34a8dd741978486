package fencing

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestCheckRefusesWhatIsNoTokenAndWhatIsNoResource(t *testing.T) {
	assert.NoError(t, Check("jobs/42", 1))
	assert.NoError(t, Check(strings.Repeat("a", MaxResource), 1<<62))
	assert.ErrorIs(t, Check("jobs/42", 0), ErrNoToken)
	assert.ErrorIs(t, Check("jobs/42", -1), ErrNoToken)
	assert.ErrorIs(t, Check("", 1), ErrNoResource)
	assert.ErrorIs(t, Check(strings.Repeat("a", MaxResource+1), 1), ErrNoResource)
}

func TestContextCarriesTheInnermostToken(t *testing.T) {
	outer := NewContext(t.Context(), "jobs/1", 41)
	inner := NewContext(outer, "jobs/2", 57)

	resource, token, ok := FromContext(inner)
	require.True(t, ok)
	assert.Equal(t, "jobs/2", resource)
	assert.Equal(t, Token(57), token)

	resource, token, ok = FromContext(outer)
	require.True(t, ok)
	assert.Equal(t, "jobs/1", resource)
	assert.Equal(t, Token(41), token)
}

func TestContextWithoutATokenSaysSo(t *testing.T) {
	_, token, ok := FromContext(context.Background())
	assert.False(t, ok)
	assert.Zero(t, token)
}

func TestUnusableTokenHidesTheOuterOne(t *testing.T) {
	outer := NewContext(t.Context(), "jobs/1", 41)
	for _, inner := range []context.Context{
		NewContext(outer, "jobs/2", 0),
		NewContext(outer, "jobs/2", -7),
		NewContext(outer, "", 57),
		NewContext(outer, strings.Repeat("a", MaxResource+1), 57),
	} {
		resource, token, ok := FromContext(inner)
		assert.False(t, ok)
		assert.Empty(t, resource)
		assert.Zero(t, token)
	}
}

func TestContextDistinguishesSharedTokensFromExclusiveOnes(t *testing.T) {
	outer := NewContext(t.Context(), "jobs/42", 57)
	shared := NewSharedContext(outer, "jobs/43", 58)
	resource, token, ok := FromSharedContext(shared)
	assert.True(t, ok)
	assert.Equal(t, "jobs/43", resource)
	assert.Equal(t, Token(58), token)
	_, _, ok = FromContext(shared)
	assert.False(t, ok, "what knows no shared tokens would take it for an exclusive one")
	_, _, ok = FromSharedContext(outer)
	assert.False(t, ok)
	_, _, ok = FromSharedContext(NewSharedContext(shared, "", 59))
	assert.False(t, ok, "one that cannot be used hides the outer ones")
	_, _, ok = FromSharedContext(NewContext(shared, "jobs/44", 60))
	assert.False(t, ok, "the innermost is exclusive")
}

func TestGateAdmitsTheTokenOfAContextInItsMode(t *testing.T) {
	var g Gate
	require.NoError(t, g.AdmitContext(NewSharedContext(t.Context(), "r", 7)))
	require.NoError(t, g.AdmitContext(NewSharedContext(t.Context(), "r", 5)))
	refused(t, g.AdmitContext(NewContext(t.Context(), "r", 6)), StaleError{"r", 6, 7})
	require.NoError(t, g.AdmitContext(NewContext(t.Context(), "r", 8)))
	assert.ErrorIs(t, g.AdmitContext(t.Context()), ErrNoToken)
	assert.ErrorIs(t, g.AdmitContext(NewContext(NewContext(t.Context(), "r", 9), "r", 0)), ErrNoToken)
}

func TestStaleErrorNamesResourceAndTokens(t *testing.T) {
	err := &StaleError{Resource: "jobs/42", Got: 41, Highest: 57}
	assert.EqualError(t, err, `fencing: stale token 41 for "jobs/42": 57 was seen`)
}
