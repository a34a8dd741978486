package assert_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// said is a test that keeps what it was told.
type said struct {
	text  []string
	ended bool
}

func (s *said) Helper() {}

func (s *said) Errorf(format string, args ...any) {
	s.text = append(s.text, fmt.Sprintf(format, args...))
}

func (s *said) FailNow() { s.ended = true }

// Each check, with arguments for which it holds and with ones for which it does not.
func TestEachCheckHoldsOrSaysWhatItFound(t *testing.T) {
	one, other := new(int), new(int)
	wrapped := fmt.Errorf("read: %w", io.EOF)
	var path *fs.PathError
	now := time.Now()
	for name, c := range map[string]struct {
		holds, fails func(t assert.T) bool
		says         string
	}{
		"equal":              {func(t assert.T) bool { return assert.Equal(t, []string{"a"}, []string{"a"}) }, func(t assert.T) bool { return assert.Equal(t, 1, int64(1)) }, "want: 1\ngot:  1"},
		"equal bytes":        {func(t assert.T) bool { return assert.Equal(t, []byte("a"), []byte("a")) }, func(t assert.T) bool { return assert.Equal(t, []byte(nil), []byte{}) }, "not equal"},
		"equal texts":        {func(t assert.T) bool { return assert.Equal(t, "a\nb", "a\nb") }, func(t assert.T) bool { return assert.Equal(t, "a\nb\nc", "a\nx\nc") }, "differ from line 2 on:\n  a\n- b\n- c\n+ x\n+ c"},
		"not equal":          {func(t assert.T) bool { return assert.NotEqual(t, 1, 2) }, func(t assert.T) bool { return assert.NotEqual(t, 1, 1) }, "both are 1"},
		"equal values":       {func(t assert.T) bool { return assert.EqualValues(t, 1, uint8(1)) }, func(t assert.T) bool { return assert.EqualValues(t, 257, uint8(1)) }, "not equal"},
		"values of nil":      {func(t assert.T) bool { return assert.EqualValues(t, nil, nil) }, func(t assert.T) bool { return assert.EqualValues(t, nil, 0) }, "not equal"},
		"same":               {func(t assert.T) bool { return assert.Same(t, one, one) }, func(t assert.T) bool { return assert.Same(t, one, other) }, "not the same"},
		"not same":           {func(t assert.T) bool { return assert.NotSame(t, one, other) }, func(t assert.T) bool { return assert.NotSame(t, one, one) }, "both are"},
		"type":               {func(t assert.T) bool { return assert.IsType(t, 1, 2) }, func(t assert.T) bool { return assert.IsType(t, 1, "") }, "want a int, got a string"},
		"true":               {func(t assert.T) bool { return assert.True(t, true) }, func(t assert.T) bool { return assert.True(t, false, "%d words", 2) }, "should be true\n2 words"},
		"false":              {func(t assert.T) bool { return assert.False(t, false) }, func(t assert.T) bool { return assert.False(t, true, "100%") }, "should be false\n100%"},
		"fail":               {func(assert.T) bool { return true }, func(t assert.T) bool { return assert.Fail(t, "no", 7) }, "no\n7"},
		"nil":                {func(t assert.T) bool { return assert.Nil(t, (*int)(nil)) }, func(t assert.T) bool { return assert.Nil(t, 0) }, "want nil, got 0"},
		"not nil":            {func(t assert.T) bool { return assert.NotNil(t, one) }, func(t assert.T) bool { return assert.NotNil(t, map[int]int(nil)) }, "nil"},
		"zero":               {func(t assert.T) bool { return assert.Zero(t, time.Time{}) }, func(t assert.T) bool { return assert.Zero(t, "a") }, `got "a"`},
		"not zero":           {func(t assert.T) bool { return assert.NotZero(t, 1) }, func(t assert.T) bool { return assert.NotZero(t, nil) }, "zero value"},
		"empty":              {func(t assert.T) bool { return assert.Empty(t, []int{}) }, func(t assert.T) bool { return assert.Empty(t, map[int]int{1: 2}) }, "want it empty"},
		"empty behind":       {func(t assert.T) bool { return assert.Empty(t, &[]int{}) }, func(t assert.T) bool { return assert.Empty(t, &[]int{1}) }, "want it empty"},
		"not empty":          {func(t assert.T) bool { return assert.NotEmpty(t, "a") }, func(t assert.T) bool { return assert.NotEmpty(t, nil) }, "it is empty"},
		"length":             {func(t assert.T) bool { return assert.Len(t, "ab", 2) }, func(t assert.T) bool { return assert.Len(t, []int{1}, 2) }, "want 2 elements, got 1"},
		"substring":          {func(t assert.T) bool { return assert.Contains(t, "abc", "b") }, func(t assert.T) bool { return assert.Contains(t, "abc", "d") }, "does not contain"},
		"element":            {func(t assert.T) bool { return assert.Contains(t, []int{1}, 1) }, func(t assert.T) bool { return assert.Contains(t, []int{1}, 2) }, "does not contain"},
		"key":                {func(t assert.T) bool { return assert.Contains(t, map[string]int{"a": 1}, "a") }, func(t assert.T) bool { return assert.Contains(t, map[string]int{"a": 1}, "b") }, "does not contain"},
		"without":            {func(t assert.T) bool { return assert.NotContains(t, "abc", "d") }, func(t assert.T) bool { return assert.NotContains(t, []int{1}, 1) }, "contains"},
		"subset":             {func(t assert.T) bool { return assert.Subset(t, []int{1, 2}, []int{2}) }, func(t assert.T) bool { return assert.Subset(t, []int{1}, []int{1, 2}) }, "each of"},
		"elements":           {func(t assert.T) bool { return assert.ElementsMatch(t, []int{1, 2, 2}, []int{2, 1, 2}) }, func(t assert.T) bool { return assert.ElementsMatch(t, []int{1, 2, 2}, []int{1, 1, 2}) }, "not the same elements"},
		"no elements":        {func(t assert.T) bool { return assert.ElementsMatch(t, []int{}, nil) }, func(t assert.T) bool { return assert.ElementsMatch(t, []int{}, []int{1}) }, "not the same elements"},
		"pattern":            {func(t assert.T) bool { return assert.Regexp(t, "^a+$", "aa") }, func(t assert.T) bool { return assert.Regexp(t, "^a+$", "ab") }, `"ab" does not match`},
		"JSON":               {func(t assert.T) bool { return assert.JSONEq(t, `{"a":1,"b":2}`, `{"b": 2, "a": 1}`) }, func(t assert.T) bool { return assert.JSONEq(t, `{}`, `[]`) }, "not the same JSON"},
		"no JSON":            {func(t assert.T) bool { return assert.JSONEq(t, "1", "1 ") }, func(t assert.T) bool { return assert.JSONEq(t, "1", "x") }, "not JSON"},
		"a file":             {func(t assert.T) bool { return assert.FileExists(t, "assert.go") }, func(t assert.T) bool { return assert.FileExists(t, "gone") }, "gone is no file"},
		"a folder":           {func(t assert.T) bool { return assert.DirExists(t, ".") }, func(t assert.T) bool { return assert.DirExists(t, "assert.go") }, "assert.go is no folder"},
		"no folder":          {func(t assert.T) bool { return assert.NoDirExists(t, "gone") }, func(t assert.T) bool { return assert.NoDirExists(t, ".") }, "is a folder"},
		"no error":           {func(t assert.T) bool { return assert.NoError(t, nil) }, func(t assert.T) bool { return assert.NoError(t, io.EOF) }, "unexpected error: EOF"},
		"an error":           {func(t assert.T) bool { return assert.Error(t, io.EOF) }, func(t assert.T) bool { return assert.Error(t, nil) }, "want an error"},
		"that error":         {func(t assert.T) bool { return assert.ErrorIs(t, wrapped, io.EOF) }, func(t assert.T) bool { return assert.ErrorIs(t, wrapped, io.ErrNoProgress) }, "got: read: EOF"},
		"not that error":     {func(t assert.T) bool { return assert.NotErrorIs(t, wrapped, io.ErrNoProgress) }, func(t assert.T) bool { return assert.NotErrorIs(t, wrapped, io.EOF) }, "want no error that is: EOF"},
		"an error's type":    {func(t assert.T) bool { return assert.ErrorAs(t, &fs.PathError{Err: io.EOF}, &path) }, func(t assert.T) bool { return assert.ErrorAs(t, io.EOF, &path) }, "*fs.PathError"},
		"an error's text":    {func(t assert.T) bool { return assert.EqualError(t, io.EOF, "EOF") }, func(t assert.T) bool { return assert.EqualError(t, nil, "EOF") }, "want an error"},
		"part of its text":   {func(t assert.T) bool { return assert.ErrorContains(t, wrapped, "EOF") }, func(t assert.T) bool { return assert.ErrorContains(t, wrapped, "write") }, "does not contain: write"},
		"panics":             {func(t assert.T) bool { return assert.Panics(t, func() { panic(nil) }) }, func(t assert.T) bool { return assert.Panics(t, func() {}) }, "does not panic"},
		"panics not":         {func(t assert.T) bool { return assert.NotPanics(t, func() {}) }, func(t assert.T) bool { return assert.NotPanics(t, func() { panic("oh") }) }, "panics with oh"},
		"panics with":        {func(t assert.T) bool { return assert.PanicsWithValue(t, "oh", func() { panic("oh") }) }, func(t assert.T) bool { return assert.PanicsWithValue(t, "oh", func() { panic("ah") }) }, "otherwise"},
		"less":               {func(t assert.T) bool { return assert.Less(t, 1, 2) }, func(t assert.T) bool { return assert.Less(t, 2, 2) }, "2 is not less than 2"},
		"less or equal":      {func(t assert.T) bool { return assert.LessOrEqual(t, 2, 2) }, func(t assert.T) bool { return assert.LessOrEqual(t, time.Minute, time.Second) }, "1m0s is not less"},
		"greater":            {func(t assert.T) bool { return assert.Greater(t, 3, 2) }, func(t assert.T) bool { return assert.Greater(t, 2, 2) }, "2 is not greater than 2"},
		"greater or equal":   {func(t assert.T) bool { return assert.GreaterOrEqual(t, "b", "a") }, func(t assert.T) bool { return assert.GreaterOrEqual(t, "a", "b") }, "a is not greater"},
		"positive":           {func(t assert.T) bool { return assert.Positive(t, 1) }, func(t assert.T) bool { return assert.Positive(t, 0) }, "0 is not positive"},
		"negative":           {func(t assert.T) bool { return assert.Negative(t, -1.5) }, func(t assert.T) bool { return assert.Negative(t, 0) }, "0 is not negative"},
		"near":               {func(t assert.T) bool { return assert.InDelta(t, 1, 1.5, 0.5) }, func(t assert.T) bool { return assert.InDelta(t, 1, 2, 0.5) }, "2 is more than 0.5 away from 1"},
		"near in time":       {func(t assert.T) bool { return assert.WithinDuration(t, now, now.Add(-1), 1) }, func(t assert.T) bool { return assert.WithinDuration(t, now, now.Add(2), 1) }, "more than 1ns away"},
		"nothing in nothing": {func(t assert.T) bool { return assert.NotContains(t, nil, 1) }, func(t assert.T) bool { return assert.Contains(t, nil, 1) }, "does not contain"},
	} {
		var good, bad said
		if !c.holds(&good) || len(good.text) > 0 {
			t.Errorf("%s: should hold: %q", name, good.text)
		}
		if c.fails(&bad) || len(bad.text) != 1 || !strings.Contains(bad.text[0], c.says) {
			t.Errorf("%s: should say %q: %q", name, c.says, bad.text)
		}
	}
}

func TestWhatIsRequiredEndsTheTest(t *testing.T) {
	var s said
	require.NoError(&s, nil)
	if s.ended || len(s.text) > 0 {
		t.Errorf("ended without a reason: %v", s)
	}
	require.NoError(&s, errors.New("no"))
	if !s.ended || len(s.text) != 1 {
		t.Errorf("not ended: %v", s)
	}
}
