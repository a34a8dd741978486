package inspect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reports requires exactly these events next, as "name kind (cause) by".
func reports(t *testing.T, f *inspect.Follower, want ...string) {
	t.Helper()
	var said []string
	for len(said) < len(want) {
		evs, err := f.Next(t.Context())
		require.NoError(t, err)
		for _, e := range evs {
			said = append(said, saying(e))
		}
	}
	require.Equal(t, want, said)
}

func saying(e inspect.Event) string {
	s := e.Name + " " + e.Kind.String()
	if e.Cause != inspect.NoCause {
		s += " (" + e.Cause.String() + ")"
	}
	if e.By != "" {
		s += " by " + e.By
	}
	if e.Unsure {
		s += "?"
	}
	return s
}

func TestAFollowerOnARealServer(t *testing.T) {
	s := etcdtest.Start(t)
	dial := func() *pawl.Client {
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holder, watcher := dial(), dial()
	f, err := inspect.Follow(t.Context(), watcher, inspect.Scope{Prefix: "re"})
	require.NoError(t, err)
	defer f.Close()
	reports := func(want ...string) { t.Helper(); reports(t, f, want...) }
	session, err := holder.Session(t.Context())
	require.NoError(t, err)
	acquire := func() *lock.Held {
		h, err := lock.New(session, "reports/daily", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	h := acquire()
	reports("reports/daily acquired")
	require.NoError(t, h.Release(t.Context()))
	reports("reports/daily released (key deleted)")
	_, err = lock.New(session, "reports/daily", lock.Options{MaxHold: 50 * time.Millisecond}).Acquire(t.Context())
	require.NoError(t, err)
	reports("reports/daily acquired", "reports/daily released (key deleted)")
	h = acquire()
	reports("reports/daily acquired")
	p := f.Snapshot().Queues[0].Queue[0]
	assert.Equal(t, h.Token(), p.Token)
	leases, err := inspect.Leases(t.Context(), watcher, p.Lease)
	require.NoError(t, err)
	assert.Equal(t, session.TTL(), leases[p.Lease].Granted)
	require.NoError(t, inspect.Evict(t.Context(), watcher, p, "carol"))
	reports("reports/daily lost (broken) by carol")
	acquire()
	reports("reports/daily acquired")
	require.NoError(t, session.Close(t.Context()))
	reports("reports/daily lost (lease ended)")
}
