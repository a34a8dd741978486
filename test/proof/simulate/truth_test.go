package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	tr.gone("lock/1", 9, false)

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
