package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// A holder whose key is overwritten learns of it a TTL later at the latest; a release
// that was under way when it happened says in the end what it found.
func TestAnOverwrittenHolderLearnsOfItWithinATTL(t *testing.T) {
	const ttl, s = 10 * time.Second, time.Second
	now := time.Duration(0)
	tr := newTruth(func() time.Duration { return now })
	now = 1 * s
	tr.put("lock/1", 7, true, false)
	now = 5 * s
	tr.meddle("lock/1", true)
	now = 40 * s
	tr.gone("lock/1", 9, etcd.ByClient)

	release := func(call, end time.Duration, out history.Outcome) history.Op {
		return history.Op{Kind: history.Release, Name: "lock", Token: 7, Call: call * s, Return: end * s, Outcome: out}
	}
	look := func(at time.Duration) history.Op {
		return history.Op{Kind: history.Look, Name: "lock", Token: 7, Call: at * s, Return: at * s, Outcome: history.OK}
	}
	bad, _ := tr.validate([]history.Op{look(4), look(14), release(14, 20, history.Unknown), release(39, 41, history.OK)}, ttl)
	assert.Empty(t, bad)
	bad, _ = tr.validate([]history.Op{look(4), look(16)}, ttl)
	require.Len(t, bad, 1)
	assert.Contains(t, bad[0], "long after an operator ended it")
	bad, _ = tr.validate([]history.Op{release(39, 41, history.OK)}, ttl)
	require.Len(t, bad, 1)
	assert.Contains(t, bad[0], "long after an operator ended it")

	tr.answeredStale(6*s, 30*s)
	bad, _ = tr.validate([]history.Op{look(4), look(16)}, ttl)
	assert.Len(t, bad, 1, "an answer that is stale from 6s on shows what was done at 5s")
	tr.answeredStale(4*s, 7*s)
	bad, _ = tr.validate([]history.Op{look(4), look(16), look(34), release(34, 36, history.OK)}, ttl)
	assert.Empty(t, bad, "no answer showed it before 30s")
	bad, _ = tr.validate([]history.Op{look(42)}, ttl)
	assert.Len(t, bad, 1)
}

// The keys of several names that are acquired at once are put at once.
func TestKeysOfOneAcquisitionThatWerePutApartAreFound(t *testing.T) {
	tr := newTruth(func() time.Duration { return 0 })
	tr.put("lock/7-1", 5, true, false)
	tr.put("lock2/+7-1", 5, true, false)
	tr.put("lock/7-2", 6, true, false)
	bad, _ := tr.validate(nil, time.Second)
	assert.Empty(t, bad)
	tr.put("lock3/7-1", 8, true, false)
	bad, _ = tr.validate(nil, time.Second)
	assert.Equal(t, []string{"lock/7-1 was put at 5, and lock3/7-1 at 8"}, bad)
}

// Rules SM1, SM3: a slot's key is put where nobody has the slot, and no more hold than any of
// them agreed to.
func TestKeysThatASemaphoreMayNotHaveAreFound(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(tr *truth)
		says []string
	}{
		"as many as all agreed to": {func(tr *truth) {
			tr.put("//pawl/sem/lock/s1.2.8-1", 6, true, false)
			tr.put("//pawl/sem/lock/q9-1", 7, true, false)
			tr.put("lock2/+7-3", 8, true, false)
		}, nil},
		"the take of one that was first": {func(tr *truth) {
			tr.put("//pawl/sem/lock/q8-1", 6, true, false)
			tr.put("//pawl/sem/lock/s1.2.8-1", 7, true, false)
			tr.gone("//pawl/sem/lock/q8-1", 7, etcd.ByClient)
		}, nil},
		"a slot whose key went at the same revision": {func(tr *truth) {
			tr.gone("//pawl/sem/lock/s0.2.7-1", 6, etcd.ByClient)
			tr.put("//pawl/sem/lock/s0.1.8-1", 6, true, false)
		}, nil},
		"a slot twice": {func(tr *truth) { tr.put("//pawl/sem/lock/s0.3.8-1", 6, true, false) }, []string{"//pawl/sem/lock/s0.3.8-1 was put at 6 into the slot of //pawl/sem/lock/s0.2.7-1"}},
		"more than agreed to": {func(tr *truth) {
			tr.put("//pawl/sem/lock/s1.3.8-1", 6, true, false)
			tr.put("//pawl/sem/lock/s2.3.8-2", 7, true, false)
		}, []string{"//pawl/sem/lock/s2.3.8-2 was put at 7 as one of 3, where at most 2 may hold"}},
		"a lock of the same name": {func(tr *truth) { tr.put("lock/8-1", 6, true, false) }, nil},
	} {
		t.Run(what, func(t *testing.T) {
			tr := newTruth(func() time.Duration { return 0 })
			tr.put("//pawl/sem/lock/s0.2.7-1", 5, true, false)
			c.do(tr)
			bad, _ := tr.validate(nil, time.Second)
			assert.Equal(t, c.says, bad)
		})
	}
}

// A permit is held since its slot's key was created, whatever is in the turnstile or in other
// slots, and not while another has the slot.
func TestAPermitThatItsSlotDoesNotShowIsFound(t *testing.T) {
	now := time.Duration(0)
	tr := newTruth(func() time.Duration { return now })
	at := func(s int) { now = time.Duration(s) * time.Second }
	at(1)
	tr.put("//pawl/sem/lock/s0.3.7-1", 5, true, false)
	tr.put("//pawl/sem/lock/q9-1", 6, true, false)
	at(2)
	tr.put("//pawl/sem/lock/s1.3.8-1", 7, true, false)
	at(5)
	tr.put("//pawl/sem/lock/s0.3.8-2", 8, true, false) // beside the first, as if by a fault
	at(6)
	tr.gone("//pawl/sem/lock/s0.3.7-1", 9, etcd.ByClient)
	look := func(token int64, slot, s int) history.Op {
		at := time.Duration(s) * time.Second
		return history.Op{Kind: history.Look, Name: "lock", Slot: slot, Token: token, Call: at, Return: at, Outcome: history.OK}
	}
	bad, _ := tr.validate([]history.Op{look(5, 1, 2), look(7, 2, 2), look(8, 1, 7)}, time.Second)
	assert.Len(t, bad, 1, "the key alone: %q", bad)
	bad, _ = tr.validate([]history.Op{look(8, 1, 5), look(5, 1, 7), look(6, 1, 7)}, time.Second)
	require.Len(t, bad, 4)
	assert.Contains(t, bad[1], "held before it was first")
	assert.Contains(t, bad[2], "held when the key was gone")
	assert.Contains(t, bad[3], "held before it was first", "a key in the turnstile holds nothing")
}
