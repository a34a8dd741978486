package fencing

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func TestStaleErrorNamesResourceAndTokens(t *testing.T) {
	err := &StaleError{Resource: "jobs/42", Got: 41, Highest: 57}
	assert.EqualError(t, err, `fencing: stale token 41 for "jobs/42": 57 was seen`)
}
