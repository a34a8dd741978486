package keys

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

var ann = Identity{Owner: `ann "x"`, Host: "h1", PID: 7, Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}

// The forms are fixed, because other versions, and other programs, read them.
func TestFormsOfValuesAreFixed(t *testing.T) {
	label := NewLabel(ann)
	assert.Equal(t, `{"pawl":"lock","owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z"}`, string(label.Lock(ann.Since)))
	assert.Equal(t, `{"layout":"etcd","pawl":"lock","owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z"}`, string(InEtcdLayout(label.Lock(ann.Since))))
	assert.Equal(t, `{"owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z","nonce":"N"}`, string(SessionValue(ann, "N")))
	assert.Equal(t, `{"owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z"}`, string(ann.Value()))
}

func TestAPlainValueHasTheTimeAlone(t *testing.T) {
	for etcdLayout, want := range map[bool]string{false: "pawl:2026-01-02T03:04:05Z", true: "pawl/etcd:2026-01-02T03:04:05Z"} {
		value := Plain(ann.Since, etcdLayout)
		assert.Equal(t, want, string(value))
		assert.True(t, OfLock(value))
		assert.True(t, IsPlain(value))
		assert.Equal(t, Identity{Since: ann.Since.Truncate(time.Second)}, ParseIdentity(value))
		assert.Equal(t, !etcdLayout, Successor{Name: []byte("7f-1"), Create: 4}.receives(value))
		handed := Successor{Name: []byte("2-1"), Create: 5, Value: value}.HandedOff("1-1", 3, Successors{})
		assert.Equal(t, ann.Since.Truncate(time.Second), ParseIdentity(handed).Since)
		_, ok := ParseHandoff(handed)
		assert.Equal(t, !etcdLayout, ok)
		_, set := SizeOfSet(value)
		assert.False(t, set)
	}
	for _, value := range []string{"", "pawl", "paw:", "pawl/etcd", `{"pawl":"lock",`, " pawl:"} {
		assert.False(t, IsPlain([]byte(value)), value)
	}
	assert.Zero(t, ParseIdentity([]byte("pawl:yesterday")))
}

// The value of a set's keys has as many of its names as fit, and is not one of a lock that can receive
// a handoff.
func TestTheValueOfASetSaysItsNames(t *testing.T) {
	label := NewLabel(ann)
	value := label.Multi(ann.Since, []string{"a/b", `c"`})
	assert.Equal(t, `{"pawl":"multi","count":2,"names":["a/b","c\""],"owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z"}`, string(value))
	assert.Equal(t, []string{"a/b", `c"`}, ParseNames(value))
	assert.Equal(t, ann, ParseIdentity(value))
	assert.False(t, Successor{Name: []byte("7f-1"), Create: 4}.receives(value))
	assert.Equal(t, `{"layout":"etcd","pawl":"multi","count":0,"names":[],`, string(InEtcdLayout(label.Multi(ann.Since, nil)))[:53])
	long := make([]string, 32)
	for i := range long {
		long[i] = strings.Repeat("x", 100)
	}
	value = label.Multi(ann.Since, long)
	assert.Less(t, len(value), 1500)
	assert.Len(t, ParseNames(value), 9)
	for text, want := range map[string]int{string(value): 32, string(InEtcdLayout(label.Multi(ann.Since, long))): 32,
		strings.Replace(string(label.Multi(ann.Since, long[:9])), `"count":9,`, "", 1): 9} {
		n, ok := SizeOfSet([]byte(text))
		assert.True(t, ok)
		assert.Equal(t, want, n)
	}
	for _, value := range []string{"", "x", `{"pawl":"lock",`, string(label.Lock(ann.Since)), string(InEtcdLayout(label.Lock(ann.Since))), string(ann.Value())} {
		_, ok := SizeOfSet([]byte(value))
		assert.False(t, ok, value)
	}
	assert.Empty(t, ParseNames(label.Lock(ann.Since)))
	assert.Equal(t, ann, ParseIdentity(value))
}

func TestEachValueNamesItsOwner(t *testing.T) {
	lock := NewLabel(ann).Lock(ann.Since)
	handed := Successor{Name: []byte("2-1"), Create: 5, Value: lock}.HandedOff("1-1", 3, Successors{})
	for name, value := range map[string][]byte{
		"lock": lock, "lock in etcd's layout": InEtcdLayout(NewLabel(ann).Lock(ann.Since)), "handed off": handed,
		"session": SessionValue(ann, "N"), "eviction": ann.Value(),
	} {
		assert.Equal(t, ann, ParseIdentity(value), name)
	}
	for _, value := range []string{"", "x", "{", `{"owner":7}`, "\n" + string(ann.Value())} {
		assert.Zero(t, ParseIdentity([]byte(value)), "%q", value)
	}
}

func TestALockIsDistinguishedFromACandidateByItsValue(t *testing.T) {
	assert.True(t, OfLock(NewLabel(ann).Lock(ann.Since)))
	assert.True(t, OfLock(InEtcdLayout(NewLabel(ann).Lock(ann.Since))))
	assert.True(t, OfLock(NewLabel(ann).Multi(ann.Since, nil)))
	assert.True(t, OfLock(InEtcdLayout(NewLabel(ann).Multi(ann.Since, nil))))
	for _, value := range []string{"", "node-1", `{"pawl":"multi"}`, `{"pawl":"lock"}`, ` {"pawl":"lock",`, string(ann.Value())} {
		assert.False(t, OfLock([]byte(value)), "%q", value)
	}
}

// The values of a session share the content of the label, but not its memory.
func TestValuesOfOneLabelAreIndependent(t *testing.T) {
	label := NewLabel(ann)
	first := label.Lock(ann.Since)
	kept := string(first)
	_ = label.Lock(ann.Since.Add(time.Hour))
	assert.Equal(t, kept, string(first))
}

// A value may say that its hold has a Stall, and says all else as before.
func TestAValueMaySayThatItsHoldHasAStall(t *testing.T) {
	label := NewLabel(ann)
	for _, value := range [][]byte{
		Plain(ann.Since, false), Plain(ann.Since, true), label.Lock(ann.Since), InEtcdLayout(label.Lock(ann.Since)),
		label.Multi(ann.Since, []string{"a", "b"}), ann.Value(),
	} {
		before := string(value)
		for _, stall := range []time.Duration{time.Second, 90 * time.Second, 1500 * time.Millisecond, 1<<63 - 1} {
			with := WithStall([]byte(before), stall)
			assert.Equal(t, stall, StallOf(with), "%s", with)
			assert.Equal(t, ParseIdentity(value), ParseIdentity(with), "%s", with)
			assert.Equal(t, ParseNames(value), ParseNames(with))
			assert.Equal(t, MarkOf(value), MarkOf(with))
			assert.Equal(t, IsPlain(value), IsPlain(with))
			s := Successor{Name: []byte("2-1"), Create: 5, Value: with}
			if !s.receives(with) {
				continue
			}
			handed := s.HandedOff("1-1", 3, NewSuccessors(slices.Values([]Successor{{Name: []byte("3-1"), Create: 6, Value: with}})))
			assert.Equal(t, stall, StallOf(handed))
			h, ok := ParseHandoff(handed)
			assert.True(t, ok)
			next, _, ok := h.Successors.First()
			assert.True(t, ok)
			assert.Equal(t, string(with), string(next.Value))
		}
		assert.Equal(t, before, string(WithStall(value, 0)))
		assert.Zero(t, StallOf(value))
	}
	assert.Equal(t, "pawl:2026-01-02T03:04:05Z stall=30s", string(WithStall(Plain(ann.Since, false), 30*time.Second)))
	assert.Equal(t, `{"pawl":"lock","owner":"ann \"x\"","host":"h1","pid":7,"since":"2026-01-02T03:04:05.000000006Z","stall":"30s"}`, string(WithStall(label.Lock(ann.Since), 30*time.Second)))
	for _, odd := range []string{"", "x", "pawl: stall=", "pawl: stall=-1s", "pawl: stall=x", `{"stall":7}`, `{"stall":"-1s"}`, "[", "null"} {
		assert.Zero(t, StallOf([]byte(odd)), odd)
	}
}
