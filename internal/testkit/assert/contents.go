package assert

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
)

func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Chan, reflect.Func, reflect.Map, reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return r.IsNil()
	}
	return false
}

// Nil checks that got is nil, or of a type and nil.
func Nil(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, isNil(got), words, "want nil, got %#v", got)
}

// NotNil is the opposite of Nil.
func NotNil(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, !isNil(got), words, "it is nil")
}

func isZero(v any) bool { return v == nil || reflect.ValueOf(v).IsZero() }

// Zero checks that got is its type's zero value.
func Zero(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, isZero(got), words, "want its zero value, got %#v", got)
}

// NotZero is the opposite of Zero.
func NotZero(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, !isZero(got), words, "it is its zero value")
}

func isEmpty(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Chan, reflect.Map, reflect.Slice:
		return r.Len() == 0
	case reflect.Pointer:
		return r.IsNil() || isEmpty(r.Elem().Interface())
	}
	return isZero(v)
}

// Empty checks that got has nothing in it: no element, or the zero value.
func Empty(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, isEmpty(got), words, "want it empty, got %#v", got)
}

// NotEmpty is the opposite of Empty.
func NotEmpty(t T, got any, words ...any) bool {
	t.Helper()
	return check(t, !isEmpty(got), words, "it is empty: %#v", got)
}

// Len checks how many elements got has.
func Len(t T, got any, want int, words ...any) bool {
	t.Helper()
	n := reflect.ValueOf(got).Len()
	return check(t, n == want, words, "want %d elements, got %d: %#v", want, n, got)
}

// holds reports whether in, a string, a map or a list, has part as its substring, key or element.
func holds(in, part any) bool {
	if s, ok := in.(string); ok {
		sub, ok := part.(string)
		return ok && strings.Contains(s, sub)
	}
	switch r := reflect.ValueOf(in); r.Kind() {
	case reflect.String:
		return strings.Contains(r.String(), fmt.Sprint(part))
	case reflect.Map:
		for _, k := range r.MapKeys() {
			if equal(k.Interface(), part) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range r.Len() {
			if equal(r.Index(i).Interface(), part) {
				return true
			}
		}
	}
	return false
}

// Contains checks that in, a string, a map or a list, has part as its substring, key or element.
func Contains(t T, in, part any, words ...any) bool {
	t.Helper()
	return check(t, holds(in, part), words, "%#v does not contain %#v", in, part)
}

// NotContains is the opposite of Contains.
func NotContains(t T, in, part any, words ...any) bool {
	t.Helper()
	return check(t, !holds(in, part), words, "%#v contains %#v", in, part)
}

// Subset checks that list contains each element of part.
func Subset(t T, list, part any, words ...any) bool {
	t.Helper()
	ok := true
	for i := range reflect.ValueOf(part).Len() {
		ok = ok && holds(list, reflect.ValueOf(part).Index(i).Interface())
	}
	return check(t, ok, words, "%#v does not contain each of %#v", list, part)
}

// ElementsMatch checks that two lists have the same elements, each as often, in any order.
func ElementsMatch(t T, want, got any, words ...any) bool {
	t.Helper()
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	var rest []any // of got
	for i := range lenOf(g) {
		rest = append(rest, g.Index(i).Interface())
	}
	ok := lenOf(w) == len(rest)
	for i := range lenOf(w) {
		at := indexOf(rest, w.Index(i).Interface())
		if at < 0 {
			ok = false
			break
		}
		rest = append(rest[:at:at], rest[at+1:]...)
	}
	return check(t, ok, words, "not the same elements\nwant: %#v\ngot:  %#v", want, got)
}

func lenOf(r reflect.Value) int {
	if !r.IsValid() {
		return 0
	}
	return r.Len()
}

func indexOf(list []any, v any) int {
	for i, e := range list {
		if equal(e, v) {
			return i
		}
	}
	return -1
}

// Regexp checks that the pattern matches somewhere in text.
func Regexp(t T, pattern, text string, words ...any) bool {
	t.Helper()
	return check(t, regexp.MustCompile(pattern).MatchString(text), words, "%q does not match %q", text, pattern)
}

// JSONEq checks that two texts are the same JSON.
func JSONEq(t T, want, got string, words ...any) bool {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return check(t, false, words, "what is wanted is not JSON: %v", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return check(t, false, words, "not JSON: %v\n%s", err, got)
	}
	return check(t, equal(w, g), words, "not the same JSON\nwant: %s\ngot:  %s", want, got)
}

// FileExists checks that path is a file.
func FileExists(t T, path string, words ...any) bool {
	t.Helper()
	i, err := os.Lstat(path)
	return check(t, err == nil && !i.IsDir(), words, "%s is no file: %v", path, err)
}

// DirExists checks that path is a folder.
func DirExists(t T, path string, words ...any) bool {
	t.Helper()
	i, err := os.Lstat(path)
	return check(t, err == nil && i.IsDir(), words, "%s is no folder: %v", path, err)
}

// NoDirExists is the opposite of DirExists.
func NoDirExists(t T, path string, words ...any) bool {
	t.Helper()
	i, err := os.Lstat(path)
	return check(t, err != nil || !i.IsDir(), words, "%s is a folder", path)
}
