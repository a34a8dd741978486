package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// AtLeast of 10 s from 1 s on ends with the session, and a session that is detached ends then, unless another
// takes it over. A takeover that fails deletes nothing, but the lease may expire before it has failed.
func TestAKeyThatAtLeastKeepsGoesEarlierOnlyWithItsSession(t *testing.T) {
	const s = time.Second
	now := time.Duration(0)
	at := func(seconds int) { now = time.Duration(seconds) * s }
	for what, c := range map[string]struct {
		do  func(tr *truth)
		bad int
	}{
		"after it has passed":               {func(tr *truth) { at(11); tr.gone("lock/7-1", 9, etcd.ByClient) }, 0},
		"too early":                         {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByClient) }, 1},
		"its lease expires too early":       {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByExpiry) }, 1},
		"by an operator":                    {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByOperator) }, 0},
		"after the session's end":           {func(tr *truth) { at(8); tr.leaseLeft(7, now); at(9); tr.gone("lock/7-1", 9, etcd.ByRevoke) }, 0},
		"before the session's end":          {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByClient); at(10); tr.leaseLeft(7, now) }, 1},
		"expired, and no takeover succeeds": {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByExpiry); at(10); tr.leaseLeft(7, 5*s) }, 0},
		"by a takeover that fails":          {func(tr *truth) { at(9); tr.gone("lock/7-1", 9, etcd.ByClient); at(10); tr.leaseLeft(7, 5*s) }, 1},
		"expired before it was detached":    {func(tr *truth) { at(4); tr.gone("lock/7-1", 9, etcd.ByExpiry); at(10); tr.leaseLeft(7, 5*s) }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			at(1)
			tr := newTruth(func() time.Duration { return now })
			tr.put("lock/7-1", 5, true, false)
			tr.terms[acquired{"lock", 5}] = &agreement{Options: lock.Options{AtLeast: 10 * s}}
			c.do(tr)
			ops := []history.Op{{Kind: history.Acquire, Name: "lock", Token: 5, Call: s, Return: s, Outcome: history.OK}}
			tr.validate(ops, 10*s)
			assert.Len(t, tr.unkept(ops, 0), c.bad)
		})
	}
}

// A lock-delay counts from when a lock was last seen to be held, unless it was released while it was. The
// session may end while it is.
func TestALockDelayIsOverEarlierOnlyAfterARelease(t *testing.T) {
	const s = time.Second
	release := func(call time.Duration, out history.Outcome) history.Op {
		return history.Op{Kind: history.Release, Name: "lock", Token: 5, Call: call, Return: call + 4*s, Outcome: out}
	}
	for what, c := range map[string]struct {
		rest []history.Op
		bad  int
	}{
		"not released":                          {nil, 1},
		"released":                              {[]history.Op{release(5*s, history.OK)}, 0},
		"released, and nobody knows":            {[]history.Op{release(6*s, history.Unknown)}, 0},
		"released, and the session has ended":   {[]history.Op{release(5*s, history.Refused)}, 0},
		"lost, and then the release is refused": {[]history.Op{release(6*s, history.Refused)}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			now := s
			tr := newTruth(func() time.Duration { return now })
			tr.put("lock/7-1", 5, true, false)
			tr.terms[acquired{"lock", 5}] = &agreement{}
			now = 7 * s
			tr.gone("lock/7-1", 9, etcd.ByClient)
			ops := append([]history.Op{
				{Kind: history.Acquire, Name: "lock", Token: 5, Call: s, Return: s, Outcome: history.OK},
				{Kind: history.Look, Name: "lock", Token: 5, Call: 5 * s, Return: 5 * s, Outcome: history.OK},
			}, c.rest...)
			tr.validate(ops, 10*s)
			assert.Len(t, tr.unkept(ops, 8*s), c.bad)
		})
	}
}

// A hold with a Stall of 10 s, won at 1 s, is held until 11 s, or for 10 s after its latest Progress.
func TestAHoldIsSeenToOutliveItsStall(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		progress []time.Duration
		looks    time.Duration
		bad      int
		what     string
	}{
		{nil, 11 * s, 0, "in time"},
		{nil, 11*s + 1, 1, "too late"},
		{[]time.Duration{5 * s}, 15 * s, 0, "in time after a Progress"},
		{[]time.Duration{3 * s, 5 * s}, 15*s + 1, 1, "too late after a Progress"},
		{[]time.Duration{16 * s}, 15 * s, 1, "a later Progress revives nothing"},
	} {
		tr := newTruth(func() time.Duration { return 0 })
		tr.terms[acquired{"lock", 5}] = &agreement{Options: lock.Options{Stall: 10 * s}, progress: c.progress}
		ops := []history.Op{
			{Kind: history.Acquire, Name: "lock", Token: 5, Call: s, Return: s, Outcome: history.OK},
			{Kind: history.Look, Name: "lock", Token: 5, Call: c.looks, Return: c.looks, Outcome: history.OK},
		}
		assert.Len(t, tr.unkept(ops, 0), c.bad, c.what)
	}
}
