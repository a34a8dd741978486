package assert

import (
	"errors"
	"reflect"
	"strings"
)

// NoError checks that err is nil.
func NoError(t T, err error, words ...any) bool {
	t.Helper()
	return check(t, err == nil, words, "unexpected error: %v", err)
}

// Error checks that err is not nil.
func Error(t T, err error, words ...any) bool {
	t.Helper()
	return check(t, err != nil, words, "want an error, got nil")
}

// ErrorIs checks that err is, or wraps, target.
func ErrorIs(t T, err, target error, words ...any) bool {
	t.Helper()
	return check(t, errors.Is(err, target), words, "want an error that is: %v\ngot: %v", target, err)
}

// NotErrorIs is the opposite of ErrorIs.
func NotErrorIs(t T, err, target error, words ...any) bool {
	t.Helper()
	return check(t, !errors.Is(err, target), words, "want no error that is: %v\ngot: %v", target, err)
}

// ErrorAs checks that err is, or wraps, an error of the type that target points to, and sets it.
func ErrorAs(t T, err error, target any, words ...any) bool {
	t.Helper()
	return check(t, errors.As(err, target), words, "want an error that is a %v\ngot: %v", reflect.TypeOf(target).Elem(), err)
}

// EqualError checks the text of err.
func EqualError(t T, err error, want string, words ...any) bool {
	t.Helper()
	return Error(t, err, words...) && Equal(t, want, err.Error(), words...)
}

// ErrorContains checks that the text of err has part in it.
func ErrorContains(t T, err error, part string, words ...any) bool {
	t.Helper()
	return Error(t, err, words...) && check(t, strings.Contains(err.Error(), part), words, "the error does not contain: %s\ngot: %v", part, err)
}

// recovered returns what f panics with, and whether it does.
func recovered(f func()) (value any, panics bool) {
	panics = true
	defer func() {
		if panics {
			value = recover()
		}
	}()
	f()
	return nil, false
}

// Panics checks that f does.
func Panics(t T, f func(), words ...any) bool {
	t.Helper()
	_, panics := recovered(f)
	return check(t, panics, words, "it does not panic")
}

// NotPanics checks that f does not.
func NotPanics(t T, f func(), words ...any) bool {
	t.Helper()
	v, panics := recovered(f)
	return check(t, !panics, words, "it panics with %v", v)
}

// PanicsWithValue checks what f panics with.
func PanicsWithValue(t T, want any, f func(), words ...any) bool {
	t.Helper()
	v, panics := recovered(f)
	return check(t, panics, words, "it does not panic") && check(t, equal(want, v), words, "it panics otherwise\n%s", differ(want, v))
}
