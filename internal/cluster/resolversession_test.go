package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// sessionOf returns a session on a client of its own.
func sessionOf(t *testing.T, cfg cluster.Config) *session.Session {
	c, err := cluster.Dial(t.Context(), cfg)
	require.NoError(t, err)
	h := session.Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Reader: session.NewReader(c), Cleanup: &cleanup.Group{}, Namespace: "ns"}
	t.Cleanup(func() {
		h.Cleanup.Close(2 * time.Second)
		h.Watches.Close()
		require.NoError(t, c.Close())
	})
	s, err := session.Grant(t.Context(), h, lease.Options{TTL: 15 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// named is the queue of a lock, and its key's value.
func named(t *testing.T, name string) (queue.Request, queue.Queue) {
	q, err := queue.New("ns", name, false)
	require.NoError(t, err)
	return queue.Request{Value: keys.NewLabel(keys.Identity{}).Lock(time.Now())}, q
}

// resolverHour is a session whose resolver is at fault, and somebody else's.
type resolverHour struct {
	*testing.T
	*cluster.Resolved
	own, other   *session.Session
	next, waited time.Duration // the longest that the next lock took, and that the waiter was told late
}

func (h *resolverHour) acquire(s *session.Session, name string) *queue.Acquisition {
	r, q := named(h.T, name)
	a, err := queue.Acquire(h.Context(), s, r, q)
	require.NoError(h, err)
	return a
}

func (h *resolverHour) release(a *queue.Acquisition) {
	require.NoError(h, a.Err())
	require.NoError(h, a.Release(h.Context(), nil))
}

// minute makes the session wait for a lock, cuts its connections, has it take the next lock, and gives it the first.
func (h *resolverHour) minute(offset time.Duration, cut func(*etcdfake.Member)) {
	end := time.After(time.Minute)
	before := h.acquire(h.other, "waited for")
	won := make(chan *queue.Acquisition)
	go func() { won <- h.acquire(h.own, "waited for") }() // read below
	time.Sleep(offset)
	for _, m := range h.Members() {
		cut(m)
	}
	began := time.Now()
	h.release(h.acquire(h.own, "next"))
	h.next = max(h.next, time.Since(began))
	time.Sleep(20 * time.Second)
	began = time.Now()
	h.release(before)
	h.release(<-won)
	h.waited = max(h.waited, time.Since(began))
	<-end
}

// For an hour the resolver is at fault, and every minute all connections have to be made again. That takes no session and
// no wait away, and delays no lock for long.
//
// rule: C10
func TestNoFaultOfTheResolverTakesALockAway(t *testing.T) {
	for _, cut := range []struct {
		name string
		do   func(*etcdfake.Member)
		next time.Duration
	}{
		{"reset", (*etcdfake.Member).Reset, 650 * time.Millisecond}, // half a second, and a step of 50 ms for each member
		{"mute", (*etcdfake.Member).Swallow, 1300 * time.Millisecond},
	} {
		for _, fault := range cluster.ResolverFaults {
			for _, names := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, %s, %d names", fault, cut.name, names), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := cluster.NewResolved()
						t.Cleanup(r.Close)
						h := resolverHour{T: t, Resolved: r, own: sessionOf(t, r.Config(names)), other: sessionOf(t, r.Direct())}
						time.Sleep(10 * time.Second) // until each name has been resolved
						r.Resolve(fault)
						for i := range time.Duration(testscale.Of(20, 60)) {
							h.minute(i*time.Second/5, cut.do)
							require.NoError(t, h.own.Err())
						}
						assert.LessOrEqual(t, h.next, cut.next)
						assert.Less(t, h.waited, 100*time.Millisecond)
						h.said(fault, names)
					})
				})
			}
		}
	}
}

// said asserts that the log has one line for each name of which something known was used, and one lookup of a name was
// under way at once.
func (h *resolverHour) said(fault string, names int) {
	assert.Equal(h, 1, h.MostAtOnce())
	if fault == "well" {
		names = 0
	}
	assert.Equal(h, names, strings.Count(h.Log(), "reached at an address of before"), h.Log())
	h.Resolve("well")
	h.minute(0, (*etcdfake.Member).Reset)
	assert.Equal(h, names, strings.Count(h.Log(), "reached at an address that its name has"), h.Log())
}
