package keys

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAQueueKeyInAnotherFormIsForeign(t *testing.T) {
	q, err := NewQueue("", "n", false)
	require.NoError(t, err)
	for _, bad := range []string{
		"", "1f", "1f-", "-1", "1f-0", "1f--1", "1f-+1", "1f-01", "1F-1", "01f-1", "0-1", "-1f-1", "1f-1/x", "x/1f-1",
		"1f-99999999999999999999", "8000000000000000-1", "xyz-1", "+1f-1", "q1f-1", "s0.3.1f-1", " 1f-1", "1f-1 ",
	} {
		_, ok := q.Parse("n/" + bad)
		assert.False(t, ok, "%q", bad)
	}
	_, ok := q.Parse("m/1f-1")
	assert.False(t, ok)
	k, ok := ParseQueueKey("n/x/1f-1")
	assert.True(t, ok, "in whichever queue")
	assert.Equal(t, QueueKey{0x1f, 1}, k)
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

// A lease's range holds all its keys of one queue, and none of another lease.
func TestALeasesRangeHoldsItsKeysAlone(t *testing.T) {
	from, to := LeaseRange([]byte(QueueKey{0x1f, 7}.In("n/")))
	in := func(key string) bool { return key >= string(from) && key < string(to) }
	for _, n := range []int64{1, 7, 10, 1<<63 - 1} {
		assert.True(t, in(QueueKey{0x1f, n}.In("n/")))
		for _, other := range []int64{0x1, 0x1e, 0x1f0, 0x1f1, 0x20, 0x1ff, 0xf} {
			assert.False(t, in(QueueKey{other, n}.In("n/")), "%x", other)
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

// The forms are fixed: other versions, and other programs, read them.
func TestFormsOfKeysAreFixed(t *testing.T) {
	q, err := NewQueue("ns/", "jobs/42%", false)
	require.NoError(t, err)
	assert.Equal(t, "ns//jobs%2F42%25/1f-9", QueueKey{0x1f, 9}.In(q.Prefix))
	session := SessionKey("ns/", 0x1f)
	assert.Equal(t, "ns///pawl/1f", session)
	assert.Equal(t, "ns///pawl/1f/9", string(CancelKey(session, 9)))
	assert.Equal(t, "ns///pawl/1f/9/broken", EvictionKey(session, 9))
}
