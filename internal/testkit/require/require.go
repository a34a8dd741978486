// Package require is package assert for checks after which a test cannot go on.
package require

import (
	"cmp"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// T is what a check needs of a test.
type T interface {
	assert.T
	FailNow()
}

// must ends the test unless ok.
func must(t T, ok bool) {
	if !ok {
		t.FailNow()
	}
}

// Fail is assert.Fail.
func Fail(t T, what string, words ...any) {
	t.Helper()
	must(t, assert.Fail(t, what, words...))
}

// Equal is assert.Equal.
func Equal(t T, want, got any, words ...any) {
	t.Helper()
	must(t, assert.Equal(t, want, got, words...))
}

// NotEqual is assert.NotEqual.
func NotEqual(t T, not, got any, words ...any) {
	t.Helper()
	must(t, assert.NotEqual(t, not, got, words...))
}

// EqualValues is assert.EqualValues.
func EqualValues(t T, want, got any, words ...any) {
	t.Helper()
	must(t, assert.EqualValues(t, want, got, words...))
}

// Same is assert.Same.
func Same(t T, want, got any, words ...any) {
	t.Helper()
	must(t, assert.Same(t, want, got, words...))
}

// NotSame is assert.NotSame.
func NotSame(t T, not, got any, words ...any) {
	t.Helper()
	must(t, assert.NotSame(t, not, got, words...))
}

// IsType is assert.IsType.
func IsType(t T, want, got any, words ...any) {
	t.Helper()
	must(t, assert.IsType(t, want, got, words...))
}

// True is assert.True.
func True(t T, got bool, words ...any) {
	t.Helper()
	must(t, assert.True(t, got, words...))
}

// False is assert.False.
func False(t T, got bool, words ...any) {
	t.Helper()
	must(t, assert.False(t, got, words...))
}

// Nil is assert.Nil.
func Nil(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.Nil(t, got, words...))
}

// NotNil is assert.NotNil.
func NotNil(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.NotNil(t, got, words...))
}

// Zero is assert.Zero.
func Zero(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.Zero(t, got, words...))
}

// NotZero is assert.NotZero.
func NotZero(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.NotZero(t, got, words...))
}

// Empty is assert.Empty.
func Empty(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.Empty(t, got, words...))
}

// NotEmpty is assert.NotEmpty.
func NotEmpty(t T, got any, words ...any) {
	t.Helper()
	must(t, assert.NotEmpty(t, got, words...))
}

// Len is assert.Len.
func Len(t T, got any, want int, words ...any) {
	t.Helper()
	must(t, assert.Len(t, got, want, words...))
}

// Contains is assert.Contains.
func Contains(t T, in, part any, words ...any) {
	t.Helper()
	must(t, assert.Contains(t, in, part, words...))
}

// NotContains is assert.NotContains.
func NotContains(t T, in, part any, words ...any) {
	t.Helper()
	must(t, assert.NotContains(t, in, part, words...))
}

// Subset is assert.Subset.
func Subset(t T, list, part any, words ...any) {
	t.Helper()
	must(t, assert.Subset(t, list, part, words...))
}

// ElementsMatch is assert.ElementsMatch.
func ElementsMatch(t T, want, got any, words ...any) {
	t.Helper()
	must(t, assert.ElementsMatch(t, want, got, words...))
}

// Regexp is assert.Regexp.
func Regexp(t T, pattern, text string, words ...any) {
	t.Helper()
	must(t, assert.Regexp(t, pattern, text, words...))
}

// JSONEq is assert.JSONEq.
func JSONEq(t T, want, got string, words ...any) {
	t.Helper()
	must(t, assert.JSONEq(t, want, got, words...))
}

// FileExists is assert.FileExists.
func FileExists(t T, path string, words ...any) {
	t.Helper()
	must(t, assert.FileExists(t, path, words...))
}

// DirExists is assert.DirExists.
func DirExists(t T, path string, words ...any) {
	t.Helper()
	must(t, assert.DirExists(t, path, words...))
}

// NoDirExists is assert.NoDirExists.
func NoDirExists(t T, path string, words ...any) {
	t.Helper()
	must(t, assert.NoDirExists(t, path, words...))
}

// NoError is assert.NoError.
func NoError(t T, err error, words ...any) {
	t.Helper()
	must(t, assert.NoError(t, err, words...))
}

// Error is assert.Error.
func Error(t T, err error, words ...any) {
	t.Helper()
	must(t, assert.Error(t, err, words...))
}

// ErrorIs is assert.ErrorIs.
func ErrorIs(t T, err, target error, words ...any) {
	t.Helper()
	must(t, assert.ErrorIs(t, err, target, words...))
}

// NotErrorIs is assert.NotErrorIs.
func NotErrorIs(t T, err, target error, words ...any) {
	t.Helper()
	must(t, assert.NotErrorIs(t, err, target, words...))
}

// ErrorAs is assert.ErrorAs.
func ErrorAs(t T, err error, target any, words ...any) {
	t.Helper()
	must(t, assert.ErrorAs(t, err, target, words...))
}

// EqualError is assert.EqualError.
func EqualError(t T, err error, want string, words ...any) {
	t.Helper()
	must(t, assert.EqualError(t, err, want, words...))
}

// ErrorContains is assert.ErrorContains.
func ErrorContains(t T, err error, part string, words ...any) {
	t.Helper()
	must(t, assert.ErrorContains(t, err, part, words...))
}

// Panics is assert.Panics.
func Panics(t T, f func(), words ...any) {
	t.Helper()
	must(t, assert.Panics(t, f, words...))
}

// NotPanics is assert.NotPanics.
func NotPanics(t T, f func(), words ...any) {
	t.Helper()
	must(t, assert.NotPanics(t, f, words...))
}

// PanicsWithValue is assert.PanicsWithValue.
func PanicsWithValue(t T, want any, f func(), words ...any) {
	t.Helper()
	must(t, assert.PanicsWithValue(t, want, f, words...))
}

// Less is assert.Less.
func Less[N cmp.Ordered](t T, a, b N, words ...any) {
	t.Helper()
	must(t, assert.Less(t, a, b, words...))
}

// LessOrEqual is assert.LessOrEqual.
func LessOrEqual[N cmp.Ordered](t T, a, b N, words ...any) {
	t.Helper()
	must(t, assert.LessOrEqual(t, a, b, words...))
}

// Greater is assert.Greater.
func Greater[N cmp.Ordered](t T, a, b N, words ...any) {
	t.Helper()
	must(t, assert.Greater(t, a, b, words...))
}

// GreaterOrEqual is assert.GreaterOrEqual.
func GreaterOrEqual[N cmp.Ordered](t T, a, b N, words ...any) {
	t.Helper()
	must(t, assert.GreaterOrEqual(t, a, b, words...))
}

// Positive is assert.Positive.
func Positive[N assert.Number](t T, n N, words ...any) {
	t.Helper()
	must(t, assert.Positive(t, n, words...))
}

// Negative is assert.Negative.
func Negative[N assert.Number](t T, n N, words ...any) {
	t.Helper()
	must(t, assert.Negative(t, n, words...))
}

// InDelta is assert.InDelta.
func InDelta[W, G assert.Number](t T, want W, got G, delta float64, words ...any) {
	t.Helper()
	must(t, assert.InDelta(t, want, got, delta, words...))
}

// WithinDuration is assert.WithinDuration.
func WithinDuration(t T, want, got time.Time, delta time.Duration, words ...any) {
	t.Helper()
	must(t, assert.WithinDuration(t, want, got, delta, words...))
}
