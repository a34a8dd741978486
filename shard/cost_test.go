package shard_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
)

// operations counts the operations of requests, by name.
type operations map[string]int

// ofSessions are the operations for sessions.
var ofSessions = []string{"lease grant", "put session key", "confirm session", "lease revoke"}

// counter counts what the servers receive.
type counter struct {
	w    *fixture
	mu   sync.Mutex
	ops  operations
	txns int // transactions that are not only for sessions
}

func (w *fixture) counter() *counter {
	c := &counter{w: w, ops: operations{}}
	w.f.Inject(etcdfake.Rule{Match: func(q etcdfake.Request) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, op := range q.Ops() {
			c.ops[op]++
		}
		if q.Method == "Txn" && slices.ContainsFunc(q.Ops(), func(op string) bool { return !slices.Contains(ofSessions, op) }) {
			c.txns++
		}
		return false
	}})
	return c
}

func (c *counter) take() (all operations, txns int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, txns = c.ops, c.txns
	c.ops, c.txns = operations{}, 0
	return all, txns
}

// during returns the operations while f runs, and how many transactions contain them, except those for
// sessions. With -v it logs how many there were.
func (c *counter) during(what string, f func()) (operations, int) {
	synctest.Wait()
	c.take()
	all := c.w.f.Counts().Received["Txn"]
	f()
	synctest.Wait()
	out, txns := c.take()
	for _, op := range ofSessions {
		delete(out, op)
	}
	c.w.Logf("%s: %d operations in %d transactions; %d with those of the sessions", what, out.total(), txns, c.w.f.Counts().Received["Txn"]-all)
	return out, txns
}

func (o operations) total() (n int) {
	for _, hits := range o {
		n += hits
	}
	return n
}

// only asserts that the operations are these and no others.
func (o operations) only(t testing.TB, names ...string) {
	t.Helper()
	assert.Subset(t, names, slices.Sorted(maps.Keys(o)))
}

const (
	counts, lists = "count the shards' queues", "read the shards of a name"
	joins, marks  = "join the shards' workers", "write the member key"
	wishes, says  = "write a wish", "write value"
	offers, looks = "read who waits for shards", "read who still waits for a shard"
	positions     = "read positions"
)

// What each change costs the cluster, in operations. Many of them share a request.
func TestWhatItCosts(t *testing.T) {
	for _, c := range []struct {
		n, k               int
		join, leave, death int // the most transactions, without those for sessions
	}{
		{64, 8, 60, 68, 34},
		{1000, 50, 145, 185, 125},
	} {
		t.Run(fmt.Sprintf("%d shards of %d workers", c.n, c.k), func(t *testing.T) {
			if c.k > 8 {
				testscale.OnlyProof(t, "50 workers take seconds")
			}
			inBubble(t, c.n, func(w *fixture) {
				ops := w.counter()
				moved := func() (n int) {
					for _, x := range w.all {
						n += len(x.kinds(shard.Acquired))
					}
					return n
				}
				sent := w.f.Counts().Received["Txn"]
				n, _ := ops.during("all start", func() {
					for range c.k {
						w.start(shard.Options{})
					}
					w.pass(4 * time.Second)
				})
				w.shared()
				n.only(w, joins, lists, wishes, says, "enqueue", counts, positions)
				assert.Equal(w, c.k, n[joins])
				assert.Equal(w, c.k, n[wishes])
				assert.Equal(w, c.n+c.k, n["enqueue"], "one for each shard, and one for each candidate")
				assert.LessOrEqual(w, n[lists]+n[says], 4)
				if c.k == 8 {
					assert.LessOrEqual(w, w.f.Counts().Received["Txn"]-sent, 120, "with those of the sessions")
				}

				n, txns := ops.during("five TTLs at rest", func() { w.pass(5 * ttl) })
				n.only(w, counts)
				assert.Equal(w, n[counts], txns)
				assert.InDelta(w, 5*c.k, n[counts], float64(c.k), "one a TTL for each worker")

				before := moved()
				n, txns = ops.during("one joins", func() { w.start(shard.Options{}); w.pass(4 * time.Second) })
				w.shared()
				moves := moved() - before
				n.only(w, joins, counts, wishes, says, offers, looks, "enqueue", "release", "confirm position", positions)
				assert.Equal(w, c.n/(c.k+1), moves, "the least")
				assert.Equal(w, []int{1, moves + 1, moves, moves}, []int{n[joins], n["enqueue"], n[looks], n["release"]})
				assert.LessOrEqual(w, n["confirm position"], moves)
				assert.LessOrEqual(w, n[offers], 2*moves, "once more where others wrote before the watch began")
				assert.LessOrEqual(w, n[wishes], min(moves, c.k)+1, "those whose wish changes")
				assert.LessOrEqual(w, txns, c.join)

				before = moved()
				n, txns = ops.during("one leaves", func() { _ = w.another(w.planner()).leave(); w.pass(4 * time.Second) })
				w.shared()
				moves = moved() - before
				assert.LessOrEqual(w, moves, c.n/c.k+1, "what it had")
				assert.Equal(w, []int{moves, moves, moves}, []int{n["enqueue"], n[looks], n["release"]})
				assert.LessOrEqual(w, n[marks], 1)
				assert.LessOrEqual(w, n[wishes], c.k+1)
				assert.LessOrEqual(w, txns, c.leave)

				before = moved()
				n, txns = ops.during("one dies", func() { w.another(w.planner()).kill(); w.pass(ttl + 4*time.Second) })
				w.shared()
				moves = moved() - before
				assert.LessOrEqual(w, moves, c.n/c.k+1, "what it had")
				assert.Equal(w, moves, n["enqueue"])
				assert.Zero(w, n["release"])
				assert.LessOrEqual(w, n[wishes], c.k)
				assert.LessOrEqual(w, n.total(), 2*moves+3*c.k+12)
				assert.LessOrEqual(w, txns, c.death)
			})
		})
	}
}
