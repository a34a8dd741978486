package keys

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestASessionKeyNamesItsLease(t *testing.T) {
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

func TestTheRecordOfARunIsDistinguishedFromSessionKeys(t *testing.T) {
	for _, name := range awkward {
		key := OnceKey("ns/", name)
		assert.True(t, OfOnce("ns/", key))
		assert.True(t, OfSessions(key), "no queue's")
		lease, _, ok := ParseSessionKey("ns/", key)
		assert.False(t, ok, "lease %x", lease)
	}
	assert.False(t, OfOnce("ns/", SessionKey("ns/", 0x1f)))
	assert.Equal(t, "ns///pawl/once//jobs%2F42", OnceKey("ns/", "jobs/42"))
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	assert.Equal(t, "2026-01-02T02:04:05.000000006Z", string(OnceValue(at)))
	got, ok := ParseOnceValue(OnceValue(at))
	assert.True(t, ok && got.Equal(at))
	_, ok = ParseOnceValue([]byte("yesterday"))
	assert.False(t, ok)
}
