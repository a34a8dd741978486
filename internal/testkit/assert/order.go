package assert

import (
	"cmp"
	"math"
	"time"
)

// Less checks that a < b.
func Less[N cmp.Ordered](t T, a, b N, words ...any) bool {
	t.Helper()
	return check(t, a < b, words, "%v is not less than %v", a, b)
}

// LessOrEqual checks that a <= b.
func LessOrEqual[N cmp.Ordered](t T, a, b N, words ...any) bool {
	t.Helper()
	return check(t, a <= b, words, "%v is not less than or equal to %v", a, b)
}

// Greater checks that a > b.
func Greater[N cmp.Ordered](t T, a, b N, words ...any) bool {
	t.Helper()
	return check(t, a > b, words, "%v is not greater than %v", a, b)
}

// GreaterOrEqual checks that a >= b.
func GreaterOrEqual[N cmp.Ordered](t T, a, b N, words ...any) bool {
	t.Helper()
	return check(t, a >= b, words, "%v is not greater than or equal to %v", a, b)
}

// A Number can be compared with another one.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Positive checks that n > 0.
func Positive[N Number](t T, n N, words ...any) bool {
	t.Helper()
	return check(t, n > 0, words, "%v is not positive", n)
}

// Negative checks that n < 0.
func Negative[N Number](t T, n N, words ...any) bool {
	t.Helper()
	return check(t, n < 0, words, "%v is not negative", n)
}

// InDelta checks that got is at most delta away from want.
func InDelta[W, G Number](t T, want W, got G, delta float64, words ...any) bool {
	t.Helper()
	return check(t, math.Abs(float64(want)-float64(got)) <= delta, words, "%v is more than %v away from %v", got, delta, want)
}

// WithinDuration checks that got is at most delta away from want.
func WithinDuration(t T, want, got time.Time, delta time.Duration, words ...any) bool {
	t.Helper()
	return check(t, got.Sub(want).Abs() <= delta, words, "%v is more than %v away from %v", got, delta, want)
}
