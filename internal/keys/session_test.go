package keys

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
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
		back, ok := ParseOnceKey("ns/", key)
		assert.True(t, ok)
		assert.Equal(t, name, back)
	}
	_, ok := ParseOnceKey("ns/", SessionKey("ns/", 0x1f))
	assert.False(t, ok)
	assert.False(t, OfOnce("ns/", SessionKey("ns/", 0x1f)))
	assert.Equal(t, "ns///pawl/once//jobs%2F42", OnceKey("ns/", "jobs/42"))
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	next := at.Add(time.Hour)
	for want, r := range map[string]Run{
		"2026-01-02T02:04:05.000000006Z":                                                                               {At: at},
		"2026-01-02T02:04:05.000000006Z\nnext 2026-01-02T03:04:05.000000006Z":                                          {At: at, Next: next},
		"2026-01-02T02:04:05.000000006Z\nnext 2026-01-02T03:04:05.000000006Z\nbegan":                                   {At: at, Next: next, Began: true},
		"2026-01-02T02:04:05.000000006Z\nfailed 2026-01-02T03:04:05.000000006Z 3 again 2026-01-02T04:04:05.000000006Z": {At: at, Failed: Failed{next, 3, next.Add(time.Hour)}},
	} {
		assert.Equal(t, want, string(r.Value()))
		got, ok := ParseRun([]byte(want))
		assert.True(t, ok && got.At.Equal(r.At) && got.Next.Equal(r.Next) && got.Began == r.Began && string(got.Value()) == want, want)
	}
	got, ok := ParseRun([]byte("2026-01-02T02:04:05Z\nnext week\nwhat comes later\n"))
	assert.True(t, ok)
	assert.Equal(t, Run{At: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC)}, got, "what it does not know it passes over")
	for _, bad := range []string{"", "x", "2026-01-02T02:04:05Z 3", "2026-01-02T02:04:05Z 0 again 2026-01-02T02:04:05Z", "now 3 again 2026-01-02T02:04:05Z", "2026-01-02T02:04:05Z 3 again soon"} {
		got, ok = ParseRun([]byte("2026-01-02T02:04:05Z\nfailed " + bad))
		assert.True(t, ok && got.Failed == Failed{}, bad)
	}
	far := Run{At: at, Next: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	assert.Equal(t, "2026-01-02T02:04:05.000000006Z", string(far.Value()))
	for _, bad := range []string{"yesterday", "", "\nnext 2026-01-02T02:04:05Z"} {
		_, ok := ParseRun([]byte(bad))
		assert.False(t, ok, bad)
	}
}
