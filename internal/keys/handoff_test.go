package keys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

const someLabel = LockMark + `"owner":"a"}`

func successor(name string, create int64, value string) Successor {
	return Successor{Name: []byte(name), Create: create, Value: []byte(value)}
}

func TestAHandoffCarriesThoseWhoComeAfter(t *testing.T) {
	queued := []Successor{successor("7f-1", 4, someLabel), successor("80-9", 7, LockMark+`"owner":"b"}`), successor("81-1", 9, someLabel)}
	known := NewSuccessors(slices.Values(queued))
	by, create := "7e-1", int64(3)
	for i, want := range queued {
		first, rest, ok := known.First()
		require.True(t, ok)
		assert.Equal(t, want, first)
		value := first.HandedOff(by, create, rest)
		h, ok := ParseHandoff(value)
		require.True(t, ok)
		assert.Equal(t, []any{by, create}, []any{string(h.By), h.Create})
		assert.Equal(t, i == len(queued)-1, h.Successors.Empty())
		by, create, known = string(want.Name), want.Create, h.Successors
	}
	_, _, ok := known.First()
	assert.False(t, ok)
}

func TestTheFormOfAHandoffIsFixed(t *testing.T) {
	known := NewSuccessors(slices.Values([]Successor{
		successor("5b01-3", 4713, LockMark+`"since":"…:30Z"}`), successor("81c4-1", 4720, LockMark+`"since":"…:31Z"}`+"\ngranted 5b01-3 4713\n"),
	}))
	first, rest, ok := known.First()
	require.True(t, ok)
	assert.Equal(t, LockMark+`"since":"…:30Z"}`+"\ngranted 7f3a-12 4711\n"+`81c4-1 4720 29 1Z"}`+"\n", string(first.HandedOff("7f3a-12", 4711, rest)))
}

// Only a lock's key in pawl's layout receives a handoff, and a list ends before the first key that is
// not one, because its successor would otherwise overtake it.
// rule: RW4, ML8
func TestAListEndsBeforeTheFirstThatIsNotHandedOffTo(t *testing.T) {
	good := successor("7f-1", 4, someLabel)
	for name, bad := range map[string]Successor{
		"a candidate":             successor("80-1", 5, "node-1"),
		"a key in etcd's layout":  successor("80-1", 5, `{"layout":"etcd",`+LockMark[1:]+`"owner":"a"}`),
		"a set of names":          successor("80-1", 5, `{"pawl":"multi","owner":"a"}`),
		"a peer's key":            successor("80", 5, someLabel),
		"a shared holder's key":   successor("+80-1", 5, someLabel),
		"a semaphore's turnstile": successor("q80-1", 5, someLabel),
		"a key of another name":   successor("x/80-1", 5, someLabel),
		"a key without revision":  successor("80-1", 0, someLabel),
		"one that is too long":    successor("80-1", 5, someLabel+strings.Repeat("x", maxListBytes)),
	} {
		known := NewSuccessors(slices.Values([]Successor{good, bad, good}))
		first, rest, ok := known.First()
		require.True(t, ok, name)
		assert.Equal(t, good, first, name)
		assert.True(t, rest.Empty(), name)
	}
}

func TestAnythingElseIsNoListOfSuccessors(t *testing.T) {
	for name, list := range map[string]string{
		"nothing":                     "",
		"no end":                      "7f-1 4 0 " + someLabel,
		"no revision":                 "7f-1\n",
		"a revision that is none":     "7f-1 x 0 " + someLabel + "\n",
		"a revision of nothing":       "7f-1 0 0 " + someLabel + "\n",
		"a revision with a zero":      "7f-1 04 0 " + someLabel + "\n",
		"a value alone":               "7f-1 4 " + someLabel + "\n",
		"more alike than there is":    "7f-1 4 99 }\n",
		"less alike than nothing":     "7f-1 4 -1 }\n",
		"a value that is no lock's":   "7f-1 4 0 {}\n",
		"a name of a shared holder's": "+7f-1 4 0 " + someLabel + "\n",
		"a name elsewhere":            "x/7f-1 4 0 " + someLabel + "\n",
	} {
		_, _, ok := Successors{[]byte(someLabel), []byte(list)}.First()
		assert.False(t, ok, name)
	}
	s, rest, ok := Successors{[]byte(someLabel), []byte("7f-1 4 " + fmt.Sprint(len(someLabel)-2) + ` b"}` + "\n")}.First()
	assert.True(t, ok)
	assert.Equal(t, someLabel[:len(someLabel)-2]+`b"}`, string(s.Value))
	assert.Equal(t, s.Value, rest.before)
}

func TestAnythingElseIsNoHandoff(t *testing.T) {
	for name, value := range map[string]string{
		"nothing":                   "",
		"a lock's value":            someLabel,
		"no revision":               someLabel + "\ngranted 7f-1\n",
		"a revision that is none":   someLabel + "\ngranted 7f-1 x\n",
		"a revision of nothing":     someLabel + "\ngranted 7f-1 0\n",
		"by nobody":                 someLabel + "\ngranted  3\n",
		"by a foreign key":          someLabel + "\ngranted x 3\n",
		"by a key of another name":  someLabel + "\ngranted x/7f-1 3\n",
		"another word":              someLabel + "\nGranted 7f-1 3\n",
		"on a candidate":            "node-1\ngranted 7f-1 3\n",
		"on a key in etcd's layout": `{"layout":"etcd",` + LockMark[1:] + "}\ngranted 7f-1 3\n",
	} {
		_, ok := ParseHandoff([]byte(value))
		assert.False(t, ok, name)
	}
}
