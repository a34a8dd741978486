package pawltest

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func acquire(t *testing.T, c *pawl.Client, name string) (*pawl.Session, *lock.Held) {
	t.Helper()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	h, err := lock.New(s, name, lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	return s, h
}

// everywhere runs a test in a bubble and in real time.
func everywhere(t *testing.T, f func(t *testing.T)) {
	t.Run("in a bubble", func(t *testing.T) { synctest.Test(t, f) })
	t.Run("in real time", f)
}

func TestClientsExcludeEachOther(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t)
		_, h := acquire(t, c.Client(t, pawl.Config{}), "jobs")
		s, err := c.Client(t, pawl.Config{}).Session(t.Context())
		require.NoError(t, err)
		_, err = lock.New(s, "jobs", lock.Options{}).TryAcquire(t.Context())
		assert.ErrorIs(t, err, lock.ErrBusy)
		require.NoError(t, h.Release(t.Context()))
		_, err = lock.New(s, "jobs", lock.Options{}).TryAcquire(t.Context())
		assert.NoError(t, err)
	})
}

func TestAClusterFromOutsideOfTheBubbleIsRefused(t *testing.T) {
	c := New(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fatal{TB: t}
		done := make(chan struct{})
		go func() { // ends with Client
			defer close(done)
			c.Client(f, pawl.Config{})
		}()
		<-done
		assert.Contains(t, f.said, "made outside of this synctest bubble")
	})
}

// fatal keeps the text with which a test is ended.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func TestRevokeEndsTheSession(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t)
		s, h := acquire(t, c.Client(t, pawl.Config{}), "jobs")
		c.Revoke(s.ID())
		<-h.Done()
		assert.ErrorIs(t, h.Err(), lock.ErrLost)
		assert.ErrorIs(t, h.Err(), lease.ErrRevoked)
		c.Revoke(1)
	})
}

func TestDeleteEndsTheLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t)
		s, h := acquire(t, c.Client(t, pawl.Config{}), "jobs")
		c.Delete(h.Key())
		<-h.Done()
		assert.ErrorIs(t, h.Err(), lock.ErrKeyDeleted)
		assert.NoError(t, s.Err())
		c.Delete("nothing")
	})
}

func TestCutEndsTheSessionAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		s, h := acquire(t, c.Client(t, pawl.Config{}), "jobs")
		c.Cut()
		deadline := h.Deadline()
		<-h.Done()
		assert.False(t, time.Now().After(deadline.Add(time.Second)))
		assert.ErrorIs(t, s.Err(), lease.ErrExpired)
		c.Heal()
		other, err := c.Client(t, pawl.Config{}).Session(t.Context())
		require.NoError(t, err)
		_, err = lock.New(other, "jobs", lock.Options{}).Acquire(t.Context())
		assert.NoError(t, err, "after the lease has expired at the server")
	})
}

func TestATestMayEndWhileCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endsSoon(t)
		c := New(t)
		acquire(t, c.Client(t, pawl.Config{}), "jobs")
		c.Cut()
	})
}

// endsSoon asserts, once everything that the test begins later has been closed, that the closing
// took less than 10 s.
func endsSoon(t *testing.T) {
	t.Helper()
	began := time.Now()
	t.Cleanup(func() { assert.Less(t, time.Since(began), 10*time.Second) })
}

func TestClusterMayEndBeforeItsClients(t *testing.T) {
	var c *Cluster
	t.Run("", func(sub *testing.T) {
		c = New(sub)
		acquire(t, c.Client(t, pawl.Config{}), "jobs")
	})
}

func TestClientThatCannotConnectFailsItsTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		c.Cut()
		start := time.Now()
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			c.Client(f, pawl.Config{})
		}()
		assert.Contains(t, f.said, "pawltest: client: ")
		assert.LessOrEqual(t, time.Since(start), 11*time.Second)
	})
}

// failing is a test whose failures are expected.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = format
	panic(f)
}
