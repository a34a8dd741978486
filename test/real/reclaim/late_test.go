//go:build linux

package reclaim_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A storage applies each write whatever has become of who sent it, unless it is fenced and the token is stale.
// It takes some time for that, because answers that nobody reads would fill the socket.
type storage struct {
	takes  time.Duration
	fenced bool
	gate   fencing.Gate

	mu      sync.Mutex
	highest int64
	late    map[int64]bool // tokens of which a write was applied after a higher one's
	refused map[int64]bool
	delay   *delay // of the writes of one token; nil for none
	held    int64  // the last token that was delayed
}

// A delay lets the writes up to a token wait until one of a higher token is applied.
type delay struct {
	token          int64
	waiting, until chan struct{} // closed once a write waits, and once it is over
}

func newStorage(takes time.Duration) *storage {
	return &storage{takes: takes, late: map[int64]bool{}, refused: map[int64]bool{}}
}

// serve serves until the test's end, and returns the socket.
func (s *storage) serve(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "storage") // short: it is in a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.apply(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func (s *storage) apply(c net.Conn) {
	defer c.Close()
	for writes := bufio.NewScanner(c); writes.Scan(); {
		var token int64
		fmt.Sscan(writes.Text(), &token)
		<-time.After(s.takes)
		s.await(token)
		s.write(token)
		fmt.Fprintln(c)
	}
}

// await waits for as long as a write is delayed.
func (s *storage) await(token int64) {
	s.mu.Lock()
	d := s.delay
	s.mu.Unlock()
	if d == nil || token > d.token {
		return
	}
	select {
	case <-d.waiting:
	default:
		close(d.waiting) // a token has one connection
	}
	<-d.until
}

func (s *storage) write(token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced && s.gate.Admit("it", fencing.Token(token)) != nil {
		s.refused[token] = true
		return
	}
	if token < s.highest {
		s.late[token] = true
	}
	if s.highest = max(s.highest, token); s.delay != nil && token > s.delay.token {
		close(s.delay.until)
		s.delay = nil
	}
}

// hold delays the writes of the holder, once it has written, and returns when one waits.
func (s *storage) hold(t testing.TB) {
	t.Helper()
	d := &delay{0, make(chan struct{}), make(chan struct{})}
	testscale.Await(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.highest == s.held {
			return false
		}
		d.token, s.held, s.delay = s.highest, s.highest, d
		return true
	})
	<-d.waiting
}

// What the rest of the TTL drains, and a reclaim does not: docs/how-to/reclaim.md has the table.
func TestLateWritesOfKilledHolders(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Start(t).Endpoints()
	n := testscale.Of(5, 250)
	for _, row := range []struct {
		takes     time.Duration
		pipelined bool
		delay     time.Duration
	}{
		{5 * time.Millisecond, false, 0}, {20 * time.Millisecond, false, 0}, {5 * time.Millisecond, true, 0}, {20 * time.Millisecond, false, 100 * time.Millisecond},
	} {
		s, store := newSuccession(t, endpoints, fmt.Sprint("late", row), n+1, testscale.Seed(t)), newStorage(row.takes)
		s.order.Storage, s.order.Pipelined, s.order.LockDelay = store.serve(t), row.pipelined, row.delay
		s.succeed(n, func() {})
		store.mu.Lock()
		t.Logf("a storage that takes %v, pipelined %t, lock-delay %v: %d of %d changes of holder had a late write", row.takes, row.pipelined, row.delay, len(store.late), n)
		store.mu.Unlock()
	}
}

// At each change of holder a write of the dead one comes after one of the next.
// rule: K2
func TestAFencedStorageAdmitsNoLateWriteOfAKilledHolder(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Start(t).Endpoints()
	n := testscale.Of(5, 250)
	for _, fenced := range []bool{true, false} {
		s, store := newSuccession(t, endpoints, fmt.Sprint("fenced", fenced), n+1, testscale.Seed(t)), newStorage(time.Millisecond)
		store.fenced = fenced
		s.order.Storage, s.order.Pipelined = store.serve(t), true
		s.succeed(n, func() { store.hold(t) })
		testscale.Await(t, func() bool {
			store.mu.Lock()
			defer store.mu.Unlock()
			return len(store.late)+len(store.refused) == n
		})
		store.mu.Lock()
		if fenced {
			assert.Empty(t, store.late)
		} else {
			assert.Len(t, store.late, n, "they do come late")
		}
		store.mu.Unlock()
	}
}
