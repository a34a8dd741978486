package keys

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestASessionKeyTellsItsLease(t *testing.T) {
	for _, namespace := range []string{"", "ns/", "//"} {
		session := SessionKey(namespace, 0x1f)
		for key, below := range map[string]bool{session: false, string(CancelKey(session, 3)): true, EvictionKey(session, 3): true} {
			lease, isBelow, ok := ParseSessionKey(namespace, key)
			assert.Equal(t, []any{int64(0x1f), below, true}, []any{lease, isBelow, ok}, "%q", key)
			assert.True(t, OfSessions(key))
		}
		for _, bad := range []string{"", "x", "0", "01f", "1F", "x/1"} {
			_, _, ok := ParseSessionKey(namespace, SessionRoot(namespace)+bad)
			assert.False(t, ok, "%q", bad)
		}
	}
	_, _, ok := ParseSessionKey("ns/", SessionKey("", 0x1f))
	assert.False(t, ok, "in another namespace")
}

func TestNoQueueIsOfTheSessions(t *testing.T) {
	for _, name := range awkward {
		q, err := NewQueue("ns/", name, false)
		assert.NoError(t, err)
		assert.False(t, OfSessions(q.Prefix[len("ns/"):]), "%q", name)
	}
}
