package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestPickSpreadsOverAllMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, _ *stubs, c *Cluster) {
		count := map[*Member]int{}
		for range 30 {
			count[c.Pick()]++
		}
		for _, m := range c.list() {
			assert.Equal(t, 10, count[m], m.Endpoint())
		}
	})
}

func TestAMemberThatFailedComesLastUntilItHasCooledDown(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		bad, good := member(t, c, "m0:2379"), member(t, c, "m1:2379")
		c.Failed(bad, errors.New("fault"))
		for range 10 {
			require.Same(t, good, c.Pick())
		}
		assert.Same(t, bad, c.Pick(good), "another one is wanted")
		time.Sleep(coolDown - coolDown/10 - 1)
		require.Same(t, good, c.Pick())
		require.Same(t, good, c.Pick())
		time.Sleep(coolDown/5 + 2)
		assert.Contains(t, []*Member{c.Pick(), c.Pick()}, bad)
		c.Failed(bad, errors.New("fault"))
		assert.Equal(t, 1, strings.Count(ss.logged(), "member failing"), "logged once")
		c.Worked(bad)
		assert.Contains(t, []*Member{c.Pick(), c.Pick()}, bad)
	})
}

func TestPickOfTheAvoidedTakesTheBest(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *stubs, c *Cluster) {
		a, b := member(t, c, "m0:2379"), member(t, c, "m1:2379")
		c.Failed(a, errors.New("fault"))
		for range 4 {
			assert.Same(t, b, c.Pick(a, b))
		}
	})
}

// Hazard C8.
func TestALearnerIsLeftOutUntilItIsPromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.get(0).learner.Store(true)
		c := ss.connect(ss.config())
		synctest.Wait()
		learner, voter := member(t, c, "m0:2379"), member(t, c, "m1:2379")
		assert.Equal(t, []*Member{voter}, c.Members())
		for range 4 {
			assert.Same(t, voter, c.Pick())
			assert.Same(t, voter, c.Pick(voter), "a learner is not better than one that is to be avoided")
		}
		ss.get(0).learner.Store(false)
		time.Sleep(2 * recheckEvery)
		assert.Len(t, c.Members(), 2)
		c.Pick() // makes members that are not connected connect, and skips them
		c.Pick()
		synctest.Wait()
		assert.Contains(t, []*Member{c.Pick(), c.Pick()}, learner)
		n := ss.get(0).statuses.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, n, ss.get(0).statuses.Load(), "nothing is left to check")
	})
}

func TestAMemberThatAnswersAsALearnerIsLeftOut(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = answers(etcdapi.ErrNotSupportedForLearner) })
		for range 6 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, ss.get(0).txns.Load())
	})
}

func TestALoneLearnerIsStillQueried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		ss.get(0).learner.Store(true)
		c := ss.connect(ss.config())
		assert.NotNil(t, c.Pick())
		assert.Len(t, c.Members(), 1)
	})
}

// The reason why no member serves contains each member's last failure, until the member serves.
func TestTheReasonsWhyMembersDoNotServeAreKnownUntilTheyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		cfg := ss.config()
		cfg.Lazy = true
		ss.dead["m0:2379"], ss.dead["m1:2379"] = true, true
		c := ss.connect(cfg)
		assert.Empty(t, c.Failing())
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.Error(t, err)
		assert.Contains(t, c.Failing(), "m0:2379: nobody listens there")
		assert.Contains(t, c.Failing(), "; m1:2379: nobody listens there")
		ss.mu.Lock()
		clear(ss.dead)
		ss.mu.Unlock()
		time.Sleep(10 * time.Second)
		_, err = c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, "m1:2379")}, writing())
		require.NoError(t, err)
		_, err = c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, "m0:2379")}, writing())
		require.NoError(t, err)
		assert.Empty(t, c.Failing())

		ss.get(0).do(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCNoLeader) })
		_, err = c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, "m0:2379")}, writing())
		require.Error(t, err)
		assert.Equal(t, "m0:2379: etcdserver: no leader", c.Failing())
	})
}
