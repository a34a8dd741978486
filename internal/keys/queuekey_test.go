package keys

import (
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// rule: A1
func TestAQueueKeyInAnotherFormIsForeign(t *testing.T) {
	q, err := NewQueue("", "n", false)
	require.NoError(t, err)
	for _, bad := range []string{
		"", "1f", "1f-", "-1", "1f-0", "1f--1", "1f-+1", "1f-01", "1F-1", "01f-1", "0-1", "-1f-1", "1f-1/x", "x/1f-1",
		"1f-99999999999999999999", "8000000000000000-1", "xyz-1", " 1f-1", "1f-1 ",
		"+", "++1f-1", "+1F-1", "+1f", "+q1f-1", "q", "q+1f-1", "q1f", "s1f-1", "s0.1f-1", "s0..1f-1", "s0.3.1f", "s3.3.1f-1", "s-1.3.1f-1",
		"s00.3.1f-1", "s+0.3.1f-1", "s0.03.1f-1", "s0.0.1f-1", "s0.1001.1f-1", "s0.3.+1f-1", "s0.3.1f-1.", "r1f-1", "S0.3.1f-1",
	} {
		_, ok := q.Parse("n/" + bad)
		assert.False(t, ok, "%q", bad)
	}
	_, ok := q.Parse("m/1f-1")
	assert.False(t, ok)
	k, ok := ParseQueueKey("n/x/1f-1")
	assert.True(t, ok, "in whichever queue")
	assert.Equal(t, QueueKey{Lease: 0x1f, N: 1}, k)
}

func TestAPeersQueueKeyIsALeaseAlone(t *testing.T) {
	for key, want := range map[string]int64{"a/1f": 0x1f, "a/b/7fffffffffffffff": 1<<63 - 1, "1f": 0x1f} {
		lease, ok := ParsePeerKey(key)
		assert.True(t, ok, "%q", key)
		assert.Equal(t, want, lease, "%q", key)
	}
	for _, bad := range []string{"", "a/", "a/0", "a/01f", "a/1F", "a/-1f", "a/+1f", "a/1f-1", "a/xyz", "1f/"} {
		_, ok := ParsePeerKey(bad)
		assert.False(t, ok, "%q", bad)
	}
}

// A lease's range contains all its keys of one queue, and none of another lease.
func TestALeasesRangeHoldsItsKeysAlone(t *testing.T) {
	from, to := LeaseRange([]byte(QueueKey{Lease: 0x1f, N: 7}.In("n/")))
	in := func(key string) bool { return key >= string(from) && key < string(to) }
	for _, n := range []int64{1, 7, 10, 1<<63 - 1} {
		assert.True(t, in(QueueKey{Lease: 0x1f, N: n}.In("n/")))
		for _, other := range []int64{0x1, 0x1e, 0x1f0, 0x1f1, 0x20, 0x1ff, 0xf} {
			assert.False(t, in(QueueKey{Lease: other, N: n}.In("n/")), "%x", other)
		}
	}
	for _, other := range []string{"n/1f", "n/1f.", "n/1f,1", "n/+1f-1"} {
		assert.False(t, in(other), "%q", other)
	}
}

func TestSplitCutsBehindTheLastSlash(t *testing.T) {
	for key, want := range map[string][2]string{"a/b": {"a/", "b"}, "/a%2Fb/1f-1": {"/a%2Fb/", "1f-1"}, "a": {"", "a"}, "a/": {"a/", ""}, "": {"", ""}} {
		prefix, name := Split(key)
		assert.Equal(t, want, [2]string{prefix, name}, "%q", key)
	}
}

// The forms are fixed, because other versions, and other programs, read them.
func TestFormsOfKeysAreFixed(t *testing.T) {
	q, err := NewQueue("ns/", "jobs/42%", false)
	require.NoError(t, err)
	assert.Equal(t, "ns//jobs%2F42%25/1f-9", QueueKey{Lease: 0x1f, N: 9}.In(q.Prefix))
	session := SessionKey("ns/", 0x1f)
	assert.Equal(t, "ns///pawl/1f", session)
	assert.Equal(t, "ns///pawl/1f/9", string(CancelKey(session, 9)))
	assert.Equal(t, "ns///pawl/1f/9/broken", EvictionKey(session, 9))
	q, err = NewSemaphore("ns/", "jobs/42%")
	require.NoError(t, err)
	assert.Equal(t, "ns///pawl/sem//jobs%2F42%25/s1.2.1f-9", QueueKey{Lease: 0x1f, N: 9, Form: Slot, Slot: 1, Limit: 2}.In(q.Prefix))
}

// A key of each form is read back, and lies in the range of its form and in no other.
// rule: RW1
func TestEachFormOfQueueKeyIsReadBackAndLiesInItsRange(t *testing.T) {
	forms := map[string]QueueKey{
		"n/1f-7":                      {Lease: 0x1f, N: 7},
		"n/+1f-7":                     {Lease: 0x1f, N: 7, Form: Shared},
		"//pawl/sem/n/q1f-7":          {Lease: 0x1f, N: 7, Form: Turnstile},
		"//pawl/sem/n/s0.1.1f-7":      {Lease: 0x1f, N: 7, Form: Slot, Limit: 1},
		"//pawl/sem/n/s999.1000.1f-7": {Lease: 0x1f, N: 7, Form: Slot, Slot: 999, Limit: 1000},
		"//pawl/sem/n/s12.13.1f-7":    {Lease: 0x1f, N: 7, Form: Slot, Slot: 12, Limit: 13},
		"n/7fffffffffffffff-1":        {Lease: 1<<63 - 1, N: 1},
	}
	for key, want := range forms {
		prefix, name := Split(key)
		assert.Equal(t, key, want.In(prefix))
		elsewhere := map[string]string{"n/": "//pawl/sem/n/", "//pawl/sem/n/": "n/"}[prefix]
		_, ok := ParseQueueKey(elsewhere + name)
		assert.False(t, ok, "%q lies in the other kind's place", name)
		got, ok := ParseQueueKey(key)
		assert.True(t, ok, "%q", key)
		assert.Equal(t, want, got)
		assert.Equal(t, want.Form == Shared, strings.HasPrefix(key, SharedPrefix(prefix)), "%q", key)
		assert.Equal(t, want.Form == Turnstile, strings.HasPrefix(key, TurnstilePrefix(prefix)), "%q", key)
		assert.Equal(t, want.Form == Slot, strings.HasPrefix(key, SlotsPrefix(prefix)), "%q", key)
		for slot := range 15 {
			assert.Equal(t, want.Form == Slot && want.Slot == slot, strings.HasPrefix(key, SlotPrefix(prefix, slot)), "%q, %d", key, slot)
		}
	}
}
