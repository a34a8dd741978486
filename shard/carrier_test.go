package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// many are more shards than one worker's leases carry each.
const many = 2*shards.KeysPerLease + 100

// idle is a work that writes when it begins and when it ends, so that a thousand of them cost little.
func idle(x *worker) {
	x.job = func(ctx context.Context, h *shard.Held) error {
		x.write(h)
		<-ctx.Done()
		x.write(h)
		return nil
	}
}

// leases are how many keys of queues each lease has, the fewest first.
func (w *fixture) leases() (counts []int, of map[int64]int) {
	of = map[int64]int{}
	from, to := w.keys.Queues()
	for _, key := range w.f.Keys(w.keys.Prefix) {
		if key >= string(from) && key < string(to) {
			of[w.f.Get(key).Lease]++
		}
	}
	for _, n := range of {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts, of
}

// member is the only member, and what its key says.
func (w *fixture) member() (lease int64, m shards.Member) {
	w.Helper()
	all := w.f.Keys(w.keys.Prefix + "m/")
	require.Len(w, all, 1)
	m, err := shards.DecodeMember(w.n, w.f.Get(all[0]).Value)
	require.NoError(w, err)
	return w.keys.Parse(all[0]).Lease, m
}

// named fails the test if a key of a queue was put on a lease that no member key had named before.
func (w *fixture) named() {
	w.Helper()
	known := map[int64]bool{}
	for _, c := range w.f.History() {
		k := w.keys.Parse(c.Key)
		switch {
		case c.Deleted:
		case k.Kind == keys.ShardsMember:
			m, err := shards.DecodeMember(w.n, c.Value)
			require.NoError(w, err)
			known[k.Lease] = true
			for _, lease := range m.Carriers {
				known[lease] = true
			}
		case k.Kind == keys.ShardsQueue && !known[c.Lease]:
			require.Fail(w, "a carrier is not named", "%s at revision %d", c.Key, c.Revision)
		}
	}
}

// rule: SH11
func TestShardsLieOnLeasesOfFiveHundredKeysAtMost(t *testing.T) {
	for n, want := range map[int][]int{shards.KeysPerLease: {500}, shards.KeysPerLease + 1: {1, 500}, many: {100, 500, 500}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, n, func(w *fixture) {
				x := w.start(shard.Options{}, idle)
				w.pass(5 * time.Second)
				counts, of := w.leases()
				assert.Equal(w, want, counts)
				lease, m := w.member()
				assert.Len(w, m.Carriers, len(want)-1)
				for _, c := range append(m.Carriers, lease) {
					assert.NotZero(w, of[c])
				}
				w.named()
				w.shared()
				table := w.table(x)
				require.Len(w, table.Members, 1)
				assert.Equal(w, n, table.Members[0].Held)
				for _, o := range table.Shards {
					assert.Equal(w, lease, o.Lease, "the owner is the member, whatever the lease of the key")
				}
				require.ErrorIs(w, x.leave(), context.Canceled)
				w.pass(time.Second)
				assert.Empty(w, w.f.Keys(w.keys.Prefix))
				assert.Empty(w, w.f.Leases(), "all leases are revoked")
			})
		})
	}
}

// table is what Observe yields first.
func (w *fixture) table(x *worker) shard.Table {
	w.Helper()
	for t, err := range shard.Observe(w.Context(), x.c, "jobs") {
		require.NoError(w, err)
		return t
	}
	return shard.Table{}
}

// rule: SH11
func TestACarrierThatEndsCostsItsShardsAMomentAndNoOthers(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		x := w.start(shard.Options{}, idle)
		w.pass(5 * time.Second)
		began := w.total()
		_, m := w.member()
		w.f.Revoke(m.Carriers[0])
		w.pass(3 * time.Second)
		assert.Len(w, x.kinds(shard.Lost), shards.KeysPerLease)
		for _, ev := range x.kinds(shard.Lost) { // the watch may show the key's deletion before that of the lease
			assert.True(w, errors.Is(ev.Err, lease.ErrRevoked) || errors.Is(ev.Err, lock.ErrKeyDeleted), "%v", ev.Err)
		}
		assert.Equal(w, began+shards.KeysPerLease, w.total(), "the other shards' work goes on")
		w.shared()
		w.named()
		counts, _ := w.leases()
		assert.Equal(w, []int{100, 500, 500}, counts)
		assert.Len(w, x.kinds(shard.Joined), 1)
	})
}

// Two workers could otherwise count the carriers as theirs, or nobody.
// rule: SH11
func TestTheEndOfTheMembersSessionEndsItsCarriers(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		x := w.start(shard.Options{}, idle)
		w.pass(5 * time.Second)
		lease, old := w.member()
		w.f.Revoke(lease)
		w.pass(200 * time.Millisecond)
		lost := map[int]bool{} // some of them twice, if it learns of the end of keys before that of the session
		for _, ev := range x.kinds(shard.Lost) {
			lost[ev.Shard] = true
		}
		assert.Len(w, lost, many)
		assert.Empty(w, x.owned())
		w.pass(ttl)
		w.shared()
		w.named()
		_, of := w.leases()
		for _, c := range old.Carriers {
			assert.Zero(w, of[c])
			_, there := w.f.Lease(c)
			assert.False(w, there, "the lease is revoked")
		}
	})
}

// A worker that is killed leaves leases that were made at different times. They expire together, so the
// survivor has all shards soon after the first has expired, and none twice.
// rule: SH11
func TestTheLeasesOfAProcessThatDiesExpireTogether(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		x := w.start(shard.Options{}, idle)
		w.pass(2 * time.Second)
		y := w.start(shard.Options{}, idle)
		w.pass(time.Minute)
		w.shared()
		assert.Equal(w, many, len(x.owned())+len(y.owned()))
		require.ErrorIs(w, y.leave(), context.Canceled)
		w.pass(7*time.Second + 300*time.Millisecond) // x has a carrier more, or has them filled
		z := w.start(shard.Options{}, idle)
		w.pass(30 * time.Second)
		var mine []etcdfake.Lease
		owned := map[int64]bool{}
		x.set(func() {
			for _, h := range x.has {
				owned[h.Session().ID()] = true
			}
		})
		for _, l := range w.f.Leases() {
			if owned[l.ID] {
				mine = append(mine, l)
			}
		}
		require.GreaterOrEqual(w, len(mine), 2)
		assert.LessOrEqual(w, mine[len(mine)-1].Expires.Sub(mine[0].Expires), ttl/32+50*time.Millisecond)
		x.kill()
		w.pass(ttl + 5*time.Second)
		assert.Len(w, z.owned(), many)
		w.shared()
	})
}

// Thousands of shards move when a worker joins, and when it leaves.
// rule: SH11
func TestThousandsOfShardsMoveAndNoneIsLost(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		x := w.start(shard.Options{}, idle)
		w.pass(5 * time.Second)
		y := w.start(shard.Options{}, idle)
		w.pass(10 * time.Second)
		w.shared()
		assert.Equal(w, many+many/2, w.total(), "each shard has moved once at most")
		require.ErrorIs(w, y.leave(), context.Canceled)
		w.pass(5 * time.Second)
		w.shared()
		w.named()
		assert.Empty(w, x.kinds(shard.Lost))
		assert.Empty(w, y.kinds(shard.Lost))
	})
}

// A worker without carriers goes on as before if no further session can be made.
func TestShardsWaitForACarrierThatCannotBeMade(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		fault := w.f.Inject(etcdfake.Rule{Method: "LeaseGrant", Skip: 1, Lose: true})
		x := w.start(shard.Options{}, idle)
		w.pass(40 * time.Second)
		assert.Len(w, x.owned(), shards.KeysPerLease)
		assert.NotEmpty(w, x.kinds(shard.Retrying))
		fault.Lift()
		w.pass(time.Minute)
		w.shared()
		assert.Empty(w, x.kinds(shard.Lost))
	})
}

// The key names the carrier, whatever became of the answer, so shards may be queued for on it.
// rule: SH11
func TestACarrierIsNamedEvenIfTheAnswerToThatIsLost(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		x := w.start(shard.Options{}, idle)
		w.pass(5 * time.Second)
		_, m := w.member()
		w.f.Revoke(m.Carriers[0])
		lost := w.f.Inject(etcdfake.Rule{Op: "write the member key", Err: status.Error(codes.Unavailable, "etcdserver: request timed out")})
		w.pass(ttl)
		assert.Positive(w, lost.Hits())
		lost.Lift()
		w.pass(ttl)
		assert.Len(w, x.owned(), many)
		w.shared()
		w.named()
	})
}

// A shard that is not wished any more leaves the line for a carrier.
func TestWhoLeavesWhileShardsWaitForACarrierLeavesAtOnce(t *testing.T) {
	inBubble(t, many, func(w *fixture) {
		w.f.Inject(etcdfake.Rule{Method: "LeaseGrant", Skip: 1, Lose: true})
		x := w.start(shard.Options{}, idle)
		w.pass(5 * time.Second)
		began := time.Now()
		require.ErrorIs(w, x.leave(), context.Canceled)
		assert.Less(w, time.Since(began), ttl)
	})
}

// A worker that is to take many shards has to wait for its turn to send each enqueue. It says meanwhile
// that they come, so that the planner does not take it for one that cannot.
// rule: SH8, SH11
func TestAJoinThatTakesLongerThanATTLIsNotGivenUp(t *testing.T) {
	const n = 6 * shards.KeysPerLease
	inBubble(t, n, func(w *fixture) {
		w.start(shard.Options{}, idle)
		w.pass(10 * time.Second)
		w.f.Inject(etcdfake.Rule{Op: "enqueue", HoldAnswer: 3 * time.Second})
		w.f.Inject(etcdfake.Rule{Op: "lease grant", HoldAnswer: 2500 * time.Millisecond})
		y := w.start(shard.Options{}, idle)
		w.pass(15 * time.Second)
		require.Less(w, len(y.owned()), n/2, "it takes longer than a TTL")
		w.pass(25 * time.Second)
		w.shared()
		assert.Len(w, y.kinds(shard.Acquired), n/2)
	})
}
