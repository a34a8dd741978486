// Package assert has the checks that this module's tests use, under the names and with the arguments of
// testify's package of the same name.
//
// testify is not used here, because a go.mod that requires it, or a test that imports it, puts it into
// the module graph of each program that imports pawl (see docs/decisions/no-test-libraries.md). The
// tests of the other modules use testify.
package assert

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// T is what a check needs of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// check fails t with what is said, unless ok. The words of the caller, a format and its arguments,
// follow.
func check(t T, ok bool, words []any, format string, args ...any) bool {
	if ok {
		return true
	}
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if len(words) > 0 {
		if f, is := words[0].(string); is && len(words) > 1 {
			text += "\n" + fmt.Sprintf(f, words[1:]...)
		} else {
			text += "\n" + fmt.Sprint(words...)
		}
	}
	t.Errorf("%s", text)
	return false
}

// equal compares as testify does: bytes by content, everything else deeply and with its type.
func equal(a, b any) bool {
	if x, ok := a.([]byte); ok {
		y, ok := b.([]byte)
		return ok && (x == nil) == (y == nil) && bytes.Equal(x, y)
	}
	return reflect.DeepEqual(a, b)
}

// differ shows two values that should be equal.
func differ(want, got any) string {
	w, wantText := want.(string)
	g, gotText := got.(string)
	if wantText && gotText && (strings.Contains(w, "\n") || strings.Contains(g, "\n")) {
		return lines(strings.Split(w, "\n"), strings.Split(g, "\n"))
	}
	return fmt.Sprintf("want: %#v\ngot:  %#v", want, got)
}

// around is how many lines lines shows before the first difference, and after it.
const around = 5

// lines shows two texts from shortly before the first line in which they differ.
func lines(want, got []string) string {
	first := 0
	for first < len(want) && first < len(got) && want[first] == got[first] {
		first++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the texts differ from line %d on:", first+1)
	show := func(mark string, all []string, from, to int) {
		for _, line := range all[min(from, len(all)):min(to, len(all))] {
			b.WriteString("\n" + mark + line)
		}
	}
	show("  ", want, max(0, first-around), first)
	show("- ", want, first, first+around)
	show("+ ", got, first, first+around)
	return b.String()
}

// Fail fails t.
func Fail(t T, what string, words ...any) bool {
	t.Helper()
	return check(t, false, words, "%s", what)
}

// Equal checks that got is want, deeply and of the same type.
func Equal(t T, want, got any, words ...any) bool {
	t.Helper()
	return equal(want, got) || check(t, false, words, "not equal\n%s", differ(want, got))
}

// NotEqual checks that the two are not equal.
func NotEqual(t T, not, got any, words ...any) bool {
	t.Helper()
	return check(t, !equal(not, got), words, "both are %#v", got)
}

// EqualValues checks that the two are equal when converted to each other's type.
func EqualValues(t T, want, got any, words ...any) bool {
	t.Helper()
	return check(t, equal(want, got) || equal(converted(want, got), got) && equal(want, converted(got, want)), words, "not equal\n%s", differ(want, got))
}

// converted returns v as a value of like's type, or nil if it cannot be one.
func converted(v, like any) any {
	x, y := reflect.ValueOf(v), reflect.ValueOf(like)
	if !x.IsValid() || !y.IsValid() || !x.CanConvert(y.Type()) {
		return nil
	}
	return x.Convert(y.Type()).Interface()
}

// Same checks that two pointers, or two errors, are the same.
func Same(t T, want, got any, words ...any) bool {
	t.Helper()
	return check(t, want == got, words, "not the same\nwant: %p %#v\ngot:  %p %#v", want, want, got, got)
}

// NotSame checks that two pointers are not the same.
func NotSame(t T, not, got any, words ...any) bool {
	t.Helper()
	return check(t, not != got, words, "both are %p %#v", got, got)
}

// IsType checks that the two are of one type.
func IsType(t T, want, got any, words ...any) bool {
	t.Helper()
	return check(t, reflect.TypeOf(want) == reflect.TypeOf(got), words, "want a %T, got a %T", want, got)
}

// True checks that got is.
func True(t T, got bool, words ...any) bool {
	t.Helper()
	return check(t, got, words, "should be true")
}

// False checks that got is.
func False(t T, got bool, words ...any) bool {
	t.Helper()
	return check(t, !got, words, "should be false")
}
