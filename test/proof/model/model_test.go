package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// configurations are what is explored whole, with the number of states of each. The
// larger ones are explored in make proof alone.
var configurations = []struct {
	name   string
	c      Config
	states int
}{
	{"three locks", Config{Clients: alike(3, lock)}, 486_099},
	{"two locks, twice", Config{Clients: alike(2, lock, lock), Deletes: 1}, 111_137},
	{"reader, writer, reader", Config{Clients: each(reader, lock, reader)}, 241_053},
	{"reader, writer, reader, their keys deleted", Config{Clients: each(reader, lock, reader), Deletes: 1, Losses: 1}, 925_758},
	{"writer, reader, writer", Config{Clients: each(lock, reader, lock)}, 290_441},
	{"readers that become writers, and back", Config{Clients: []Client{{Wants: []Want{reader, lock}}, {Wants: []Want{lock, reader}, Session: 1}}, Deletes: 1}, 99_993},
	{"a reader and a writer of one session", Config{Clients: []Client{{Wants: []Want{reader}}, {Wants: []Want{lock}}, {Wants: []Want{lock}, Session: 2}}}, 203_138},
	{"storage", Config{Clients: each(reader, lock, reader), Storage: true}, 583_743},
	{"storage, writers", Config{Clients: each(lock, reader, lock), Storage: true}, 688_451},
	{"permits of one slot", Config{Clients: limited(1, 1, 1)}, 1_038_951},
	{"permits under two limits", Config{Clients: limited(2, 1, 2)}, 1_591_074},
	{"permits of two slots", Config{Clients: limited(2, 2, 2)}, 3_231_974},
	{"two permits, their keys deleted", Config{Clients: limited(1, 2), Deletes: 1, Losses: 1}, 17_897},
	{"two sets, their keys deleted", Config{Clients: alike(2, both), Deletes: 1, Losses: 1}, 18_551},
	{"two sets, twice", Config{Clients: alike(2, both, both)}, 37_144},
	{"a set and two locks", Config{Clients: each(both, lock, second)}, 255_324},
	{"a set and two locks, a key deleted", Config{Clients: each(both, lock, second), Losses: 1}, 537_199},
	{"sets of mixed modes", Config{Clients: each(mixed, readBoth, both)}, 322_434},
	{"sets of mixed modes, a key deleted", Config{Clients: each(mixed, readBoth, both), Losses: 1}, 951_122},
	{"batches of locks", Config{Clients: each(lock, lock, second), Batches: true}, 476_490},
	{"batches of sets", Config{Clients: alike(2, both), Batches: true}, 3_336},
	{"batches of sets and readers", Config{Clients: each(both, readBoth, second), Batches: true}, 286_071},
	{"batches of permits", Config{Clients: limited(1, 2), Batches: true}, 7_834},
	{"a lock taken over", Config{Clients: alike(2, lock), Takeovers: true, Losses: 1}, 51_004},
	{"readers and a writer taken over", Config{Clients: each(reader, lock, reader), Takeovers: true}, 4_263_736},
	{"a set taken over", Config{Clients: each(both, lock), Takeovers: true, Losses: 1}, 62_012},
	{"a set taken over, no key lost", Config{Clients: each(both, lock), Takeovers: true}, 19_498},
	{"permits taken over", Config{Clients: limited(1, 2), Takeovers: true, Losses: 1}, 81_874},
	{"two locks with a lock-delay", Config{Clients: alike(2, lock), Deletes: 1, Losses: 1, LockDelay: true}, 14_073},
	{"two locks with a lock-delay, twice", Config{Clients: alike(2, lock, lock), LockDelay: true}, 60_134},
	{"reader, writer, reader with a lock-delay", Config{Clients: each(reader, lock, reader), LockDelay: true}, 314_427},
	{"two sets with a lock-delay, their keys deleted", Config{Clients: alike(2, both), Deletes: 1, Losses: 1, LockDelay: true}, 22_883},
	{"a set and a lock with a lock-delay, taken over", Config{Clients: each(both, lock), Takeovers: true, Losses: 1, LockDelay: true}, 93_930},
	{"two locks with a lock-delay, taken over", Config{Clients: alike(2, lock), Takeovers: true, LockDelay: true}, 31_364},
}

func TestEveryInterleavingIsSafe(t *testing.T) {
	for _, conf := range configurations {
		t.Run(conf.name, func(t *testing.T) {
			fits(t, conf.states)
			t.Parallel()
			states, bad := Explore(conf.c)
			require.Nil(t, bad)
			assert.Equal(t, conf.states, states, "where the model has changed, the table follows")
		})
	}
}

// everyday is how many states a configuration may have to be explored outside of the proof. Each
// kind of acquisition, of a loss and of a batch has a configuration below it, for the model
// and for the lockstep.
const everyday = 53_000

// fits skips a configuration that has too many states for the lane.
func fits(t *testing.T, states int) {
	if states > everyday {
		testscale.OnlyProof(t, fmt.Sprintf("%d states; those with at most %d run everywhere", states, everyday))
	}
}

// A5: an enqueue that was answered needs no cancel key, even if the answer does not say whether it
// was applied. The lockstep does not walk this answer, after which the code does nothing but
// what it does after every failure.
func TestWhatWasAnsweredIsUndoneByDeletions(t *testing.T) {
	for _, c := range []Config{{Clients: alike(2, lock, lock)}, {Clients: alike(2, both)}, {Clients: limited(1, 2)}} {
		c.NoSpace = true
		_, bad := Explore(c)
		assert.Nil(t, bad)
	}
}

// rule: A5, RW2, RW3, RW4, RW5, SM1, SM3
func TestEachRuleIsNeeded(t *testing.T) {
	var (
		two         = Config{Clients: alike(2, lock), Deletes: 1}
		twice       = Config{Clients: alike(2, lock, lock), Deletes: 1}
		three       = Config{Clients: alike(3, lock)}
		modes       = Config{Clients: each(reader, lock)}
		readers     = Config{Clients: each(lock, reader, reader)}
		neighbours  = Config{Clients: []Client{{Wants: []Want{reader}}, {Wants: []Want{lock}}}}
		storage     = Config{Clients: each(reader, lock), Storage: true}
		readStorage = Config{Clients: each(reader, reader), Storage: true}
		permits     = Config{Clients: limited(2, 2)}
		limits      = Config{Clients: limited(2, 1)}
		sets        = Config{Clients: alike(2, both), Deletes: 1, Losses: 1}
		setAndLocks = Config{Clients: each(both, lock, second)}
		batches     = Config{Clients: alike(2, lock), Batches: true}
		setBatches  = Config{Clients: alike(2, both), Batches: true}
		taken       = Config{Clients: alike(2, lock), Takeovers: true, Losses: 1}
		delayed     = Config{Clients: alike(2, lock), LockDelay: true}
		setDelayed  = Config{Clients: alike(2, both), Losses: 1, LockDelay: true}
		takenLater  = Config{Clients: alike(2, lock), Takeovers: true, LockDelay: true}
	)
	const (
		twoHold   = "two believe to hold"
		notFirst  = "somebody believes to hold who is not first"
		keyless   = "somebody believes to hold whose key is not there"
		slotless  = "somebody believes to have a slot that is not its own"
		overLimit = "more hold than one of them agreed to"
		processes = "two processes believe to hold one key"
		orphan    = "an orphan key is left"
		slotLeft  = "an orphan slot is left"
		deadlock  = "deadlock"
		refused   = "the storage refused a holder"
		stale     = "a stale operation passed after a newer one that conflicts"
		tooSoon   = "a hold began before the delay after another had passed"
	)
	for name, of := range map[string]struct {
		rules  Rules
		in     Config
		breaks string
	}{
		"expiry before the deadline":            {Rules{ExpireEarly: true}, two, keyless},
		"no look at the clock":                  {Rules{NoDeadline: true}, two, twoHold},
		"absence taken for not committed":       {Rules{AbsenceSettles: true}, two, deadlock},
		"no cancel key":                         {Rules{NoCancelKey: true}, two, deadlock},
		"gone predecessor taken for ownership":  {Rules{TrustEvent: true}, two, keyless},
		"own key not compared":                  {Rules{QueryOnce: true}, two, keyless},
		"a timeout taken for an answer":         {Rules{SilenceAnswers: true}, two, deadlock},
		"lost enqueue forgotten":                {Rules{ForgetEnqueue: true}, two, orphan},
		"delete by name, of a name used again":  {Rules{BlindDelete: true}, twice, keyless},
		"handoff before the own key is deleted": {Rules{HandoffAhead: true}, two, notFirst},
		"handoff by one that did not hold":      {Rules{HandoffOnLeaving: true}, three, notFirst},

		"a reader ignores writers before it":  {Rules{ReaderIgnoresWriters: true}, modes, notFirst},
		"a writer ignores readers":            {Rules{WriterIgnoresReaders: true}, modes, notFirst},
		"successors taken from shared keys":   {Rules{SharedHandsOff: true}, readers, notFirst},
		"keys counted by prefix, not by name": {Rules{CountByForm: true}, neighbours, notFirst},
		"one register, of the newest token":   {Rules{NewestOnly: true}, readStorage, refused},
		"one register, of exclusive tokens":   {Rules{ExclusiveOnly: true}, storage, stale},

		"a take that compares neither slot nor turn": {Rules{BlindTake: true, OutOfTurn: true}, permits, slotless},
		"a take out of turn":                         {Rules{OutOfTurn: true}, limits, deadlock},
		"a take that is applied twice":               {Rules{TakeTwice: true}, permits, slotLeft},
		"a taker that heeds its own limit alone":     {Rules{OwnLimit: true}, limits, overLimit},
		"undo of the key in the turnstile alone":     {Rules{ForgetSlot: true}, permits, slotLeft},

		"a set enqueued in two transactions":   {Rules{EnqueueInParts: true}, setBatches, deadlock},
		"waiting for one queue only":           {Rules{OneQueueDecides: true}, setAndLocks, notFirst},
		"comparing one own key only":           {Rules{OneKeyDecides: true}, sets, keyless},
		"settling by one key":                  {Rules{OneKeySettles: true}, sets, deadlock},
		"undo of one key of a set":             {Rules{OneKeyUndone: true}, sets, orphan},
		"release at partial loss":              {Rules{FreeAtLoss: true}, sets, twoHold},
		"a set that is handed one of its keys": {Rules{SetTakesHandoff: true}, setAndLocks, notFirst},

		"a batch that ties two keys of one name":         {Rules{TieInBatch: true}, batches, notFirst},
		"a batch that ties two sets":                     {Rules{TieInBatch: true}, setBatches, notFirst},
		"a batch of an enqueue and the one before's end": {Rules{ReleaseWithEnqueue: true}, batches, deadlock},

		"a handle that works twice":                {Rules{HandleTwice: true}, taken, processes},
		"a session handed over goes on holding":    {Rules{DetachGoesOn: true}, taken, processes},
		"a handle that does not list acquisitions": {Rules{HandleForgets: true}, taken, orphan},
		"resumed without a query":                  {Rules{ResumedUnasked: true}, taken, keyless},

		"a lease that ends at its deadline":          {Rules{LeaseWithoutDelay: true}, delayed, tooSoon},
		"a hold that lasted too long, freed at once": {Rules{FreeAtLimit: true}, delayed, tooSoon},
		"a lease revoked while keys are kept":        {Rules{CloseAtOnce: true}, delayed, tooSoon},
		"a takeover that frees what was kept":        {Rules{HandleFrees: true}, takenLater, tooSoon},
		"a late release that frees what was kept":    {Rules{LateReleaseFrees: true}, setDelayed, tooSoon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.in.Rules = of.rules
			var bad *Violation
			if len(of.in.Clients) > 2 { // too many states, in which the violation is one of the last
				bad = Hunt(of.in)
			} else {
				_, bad = Explore(of.in)
			}
			require.NotNil(t, bad, "the rule is not needed, or the model does not see why")
			assert.Equal(t, of.breaks, bad.Property)
			t.Log(bad)
		})
	}
	// The others are among the configurations.
	for _, c := range []Config{two, modes, neighbours, storage, readStorage, permits, limits, batches, delayed} {
		_, bad := Explore(c)
		require.Nil(t, bad, "with all rules: %+v", c)
	}
}
