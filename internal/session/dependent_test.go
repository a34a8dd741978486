package session

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// dependent records what its session calls.
type dependent struct {
	entry            Entry
	own, predecessor string
	ranges           []string // prefixes under each of which it reads the last key

	mu       sync.Mutex
	observed []observation
	behind   []int64
	armed    []time.Time
	overs    []time.Time
	ends     []error
	onEnd    func(error)
	onArm    func()
	onOver   func()
}

type observation struct {
	rev              int64
	own, predecessor *mvccpb.KeyValue
}

func (d *dependent) Reads() (all []Read) {
	if d.own == "" {
		return nil
	}
	ops := []*pb.RequestOp{txn.Stat(d.own)}
	if d.predecessor != "" {
		ops = append(ops, txn.Stat(d.predecessor))
	}
	all = append(all, Read{ops, d.observe})
	for _, prefix := range d.ranges {
		all = append(all, Read{[]*pb.RequestOp{txn.LastUnder(prefix, 1, 0)}, d.observeBehind})
	}
	return all
}

func (d *dependent) observe(rev int64, shown []*mvccpb.KeyValue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observed = append(d.observed, observation{rev, shown[0], append(shown, nil)[1]})
}

func (d *dependent) observeBehind(_ int64, shown []*mvccpb.KeyValue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shown[0] != nil {
		d.behind = append(d.behind, shown[0].CreateRevision)
	}
}

func (d *dependent) Arm() {
	if d.onArm != nil {
		d.onArm()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = append(d.armed, time.Now())
}

func (d *dependent) HoldExpired() {
	if d.onOver != nil {
		d.onOver()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.overs = append(d.overs, time.Now())
}

func (d *dependent) End(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends = append(d.ends, cause)
}

func (d *dependent) Ended() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.onEnd != nil {
		d.onEnd(d.ends[0])
	}
}

func (d *dependent) readings() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.observed)
}

// hold puts n held dependents with a key each on s.
func (r *rig) hold(s *Session, n int) []*dependent {
	r.t.Helper()
	var out []*dependent
	for i := range n {
		c := &dependent{own: fmt.Sprintf("lock/%d", i)}
		r.Put(c.own, "", s.ID())
		require.NoError(r.t, c.holds(s, 0, false))
		out = append(out, c)
	}
	return out
}

// ops counts the operations of the reads that confirm a session.
func (r *rig) ops() func() []int {
	var mu sync.Mutex
	var counts []int
	r.Inject(etcdfake.Rule{Op: "confirm session", Match: func(q etcdfake.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		counts = append(counts, len(q.Message.(*pb.TxnRequest).Success))
		return false
	}})
	return func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(counts)
	}
}

// Rule N1: the read includes the lock keys, and all of them if they are few.
func TestEveryRoundReadsAllOfUpTo127Locks(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		dependents := r.hold(s, 127)
		ops := r.ops()
		sleep(8*time.Second + time.Second)
		assert.Equal(t, []int{128, 128, 128, 128}, ops(), "one read a round")
		for _, c := range dependents {
			assert.Equal(t, 4, c.readings())
			assert.NotNil(t, c.observed[0].own)
		}
	})
}

// Rule N1: many locks take turns, so that a hundred thousand cost no more a
// round than a hundred.
// rule: N1
func TestThreeThousandLocksAreEachReadWithin24RoundsOfOneReadEach(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		dependents := r.hold(s, 3000)
		ops := r.ops()
		const rounds = (3000 + 126) / 127
		sleep(rounds*time.Second + 500*time.Millisecond)
		assert.Len(t, ops(), rounds)
		for _, n := range ops() {
			assert.LessOrEqual(t, n, 128)
		}
		for i, c := range dependents {
			assert.NotZero(t, c.readings(), "lock %d", i)
		}
	})
}

func TestAReadShowsEachDependentWhatItsKeysWere(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		a := r.Put("a", "", 0)
		b := r.Put("b", "", s.ID())
		b2 := r.Put("b", "again", s.ID())
		waiter := &dependent{own: "b", predecessor: "a"}
		gone := &dependent{own: "gone"}
		require.NoError(t, waiter.waits(s))
		require.NoError(t, gone.holds(s, 0, false))
		sleep(1500 * time.Millisecond)
		require.Equal(t, 1, waiter.readings())
		shown := waiter.observed[0]
		assert.Equal(t, []int64{r.Revision(), b, b2, a, a}, []int64{shown.rev, shown.own.CreateRevision, shown.own.ModRevision, shown.predecessor.CreateRevision, shown.predecessor.ModRevision})
		assert.Equal(t, []observation{{rev: r.Revision()}}, gone.observed)
	})
}

// Rules H2, H5: a round also reads who waits behind the holders that want to know, and these take
// turns.
// rule: H5
func TestARoundReadsWhoWaitsBehindAHolderThatWantsToKnow(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		dependents := r.hold(s, 200)
		for _, c := range dependents {
			c.ranges = []string{"lock/", "none/"}
			c.reads(s, 1+len(c.ranges))
		}
		last := r.Put("lock/last", "", 0)
		ops := r.ops()
		sleep(5*time.Second + 500*time.Millisecond)
		for _, n := range ops() {
			assert.LessOrEqual(t, n, 128)
		}
		for _, c := range dependents {
			require.NotEmpty(t, c.behind)
			assert.Equal(t, last, c.behind[0], "none was found in the other range")
		}
	})
}

// Rule A4: each round reads all waiters of a session, however many locks it holds, and the held ones
// still take turns.
func TestEveryRoundReadsAllWaiters(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		held := r.hold(s, 60)
		var waiters []*dependent
		for i := range 200 {
			c := &dependent{own: fmt.Sprintf("own/%d", i), predecessor: "before"}
			waiters = append(waiters, c)
			require.NoError(t, c.waits(s))
		}
		ops := r.ops()
		sleep(4*time.Second + 500*time.Millisecond)
		for _, c := range waiters {
			assert.Equal(t, 4, c.readings())
		}
		for _, c := range held {
			assert.NotZero(t, c.readings())
		}
		for _, n := range ops() {
			assert.LessOrEqual(t, n, 128)
		}
	})
}

// A session with more waiters than fit into one read does not wait for its other reads before it trusts
// the renewal.
func TestALongReadDoesNotDelayTheDeadline(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 3 * time.Second})
		for i := range 1000 {
			c := &dependent{own: fmt.Sprintf("own/%d", i), predecessor: "before"}
			require.NoError(t, c.waits(s))
		}
		r.Member(0).SetDelay(etcdfake.Fixed(50*time.Millisecond), etcdfake.Fixed(50*time.Millisecond))
		began := time.Now()
		sleep(750*time.Millisecond + 250*time.Millisecond)
		synctest.Wait()
		assert.Greater(t, s.Deadline().Sub(began), 3*time.Second, "the renewal of two round trips counts")
		before := r.renewals()
		sleep(3 * time.Second)
		assert.LessOrEqual(t, r.renewals()-before, 4, "looking on is no reason for a hedge")
		require.NoError(t, s.Err())
	})
}

// Rule N1: a read that is refused for too many operations is sent again with the session key alone, and
// later ones have fewer operations.
func TestTooManyOperationsFallBackToTheSessionKeyAndThenToLess(t *testing.T) {
	inBubble(t, etcdfake.Options{MaxTxnOps: 32}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		dependents := r.hold(s, 40)
		ops := r.ops()
		sleep(20 * time.Second)
		require.NoError(t, s.Err())
		assert.Equal(t, []int{41, 1, 21, 21}, ops()[:4], "half of what was asked for")
		for _, c := range dependents {
			assert.NotZero(t, c.readings())
		}
	})
}

// Rule N1: a read that is refused for lack of permission is sent again with the session key alone, and
// the session continues.
func TestARefusedReadFallsBackToTheSessionKeyAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		c := r.hold(s, 1)[0]
		r.Inject(etcdfake.Rule{Op: "confirm session", Err: rpctypes.ErrGRPCPermissionDenied, Lose: true, Match: func(q etcdfake.Request) bool {
			return len(q.Message.(*pb.TxnRequest).Success) > 1
		}})
		sleep(time.Minute)
		require.NoError(t, s.Err())
		assert.Zero(t, c.readings(), "what was not read is not delivered")
	})
}

// Rule H4: a dependent is armed after the delay, unless it was dropped before. A burst of short holds
// wakes the renewer once.
// rule: H4
func TestADependentIsArmedOnceAfterTheDelay(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		short, long := &dependent{own: "short"}, &dependent{own: "long"}
		began := time.Now()
		require.NoError(t, short.holds(s, 0, true))
		sleep(20 * time.Millisecond)
		require.NoError(t, long.holds(s, 0, true))
		short.drops(s)
		sleep(time.Second)
		assert.Empty(t, short.armed)
		require.Len(t, long.armed, 1)
		assert.Equal(t, 20*time.Millisecond+ArmDelay, long.armed[0].Sub(began))
		assert.Empty(t, s.roster.arming)
	})
}

func TestNothingIsArmedOnADeadSession(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		c := &dependent{own: "k"}
		require.NoError(t, c.holds(s, 0, true))
		s.CloseInBackground()
		require.Error(t, c.holds(s, 0, true))
		sleep(time.Second)
		assert.Empty(t, c.armed)
		assert.Empty(t, s.roster.arming, "nobody would empty the list")
	})
}

// Rule H1: every dependent gets the cause once, after Err returns it.
// rule: H1
func TestEveryDependentLearnsOfTheEndOnceAndAfterTheMark(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		held, waiting, dropped := &dependent{own: "h"}, &dependent{own: "w"}, &dependent{own: "d"}
		for _, c := range []*dependent{held, waiting, dropped} {
			c.onEnd = func(cause error) { assert.Equal(t, cause, s.Err(), "marked first") }
		}
		require.NoError(t, held.waits(s))
		require.NoError(t, held.holds(s, 0, false), "from waiting to held")
		require.NoError(t, waiting.waits(s))
		require.NoError(t, dropped.holds(s, 0, false))
		dropped.drops(s)
		dropped.drops(s)
		r.Revoke(s.ID())
		synctest.Wait()
		oneCause(t, s.Err(), lease.ErrRevoked)
		assert.Equal(t, []error{s.Err()}, held.ends)
		assert.Equal(t, []error{s.Err()}, waiting.ends)
		assert.Empty(t, dropped.ends)

		late := &dependent{own: "l"}
		assert.Equal(t, s.Err(), late.waits(s))
		assert.Equal(t, s.Err(), late.holds(s, 0, false))
		_, _, err := begin(s, "p/")
		assert.Equal(t, s.Err(), err)
	})
}
