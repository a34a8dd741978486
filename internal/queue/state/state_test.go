package state

import (
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

var (
	own    = Key{"n/2-1", 5}
	before = Key{"n/1-1", 3}
	label  = keys.LockMark + `"owner":"a"}`
)

// waiting returns an acquisition that waits for before.
func waiting() Machine {
	a := Begin(Options{Handoffs: true})
	a.Apply(Enqueued{Own: own, Predecessor: before, Whole: true, Revision: 5})
	return a
}

// holding returns one that holds and knows its successor.
func holding() Machine {
	a := waiting()
	a.Apply(PredecessorDeleted{Key: before})
	a.Apply(Answered{Found: true, Revision: 8, Successors: keys.NewSuccessors(slices.Values([]keys.Successor{
		{Name: []byte("3-1"), Create: 6, Value: []byte(label)},
	}))})
	a.Apply(Won{})
	return a
}

// handoffBy returns the acquisition's key with a handoff by k.
func handoffBy(k Key, mod int64) OwnChanged {
	_, name := keys.Split(k.Name)
	value := keys.Successor{Value: []byte(label)}.HandedOff(name, k.Create, keys.Successors{})
	return OwnChanged{Create: own.Create, Mod: mod, OnLease: true, Value: value}
}

func TestAnAcquisitionThatStandsAloneNeedsNoQuery(t *testing.T) {
	a := Begin(Options{})
	require.Equal(t, Enqueue, a.Next())
	fx := a.Apply(Enqueued{Own: own, Whole: true, Revision: 5})
	assert.Zero(t, fx, "nothing is watched")
	assert.Equal(t, Win, a.Next())
	a.Apply(Won{})
	assert.Equal(t, []any{Held, ByEnqueue}, []any{a.Phase, a.Evidence})
}

// A2: a key that the enqueue's read left out may be ahead.
// rule: A2
func TestAReadInPartIsNoEvidence(t *testing.T) {
	a := Begin(Options{})
	fx := a.Apply(Enqueued{Own: own, Revision: 5})
	assert.Equal(t, Effects{WatchOwn: true, From: 6}, fx)
	assert.Equal(t, Query, a.Next())
}

// A3: the watch of the predecessor begins one revision after that at which it was read.
func TestAWaiterWatchesItsPredecessorAndItsOwnKey(t *testing.T) {
	a := Begin(Options{})
	fx := a.Apply(Enqueued{Own: own, Predecessor: before, Whole: true, Revision: 5})
	assert.Equal(t, Effects{WatchOwn: true, Follow: before, Unfollow: true, From: 6}, fx)
	assert.Equal(t, Sleep, a.Next())
}

// A2: a predecessor that is gone is only a reason to query.
// rule: A2
func TestAPredecessorThatIsGoneIsNoEvidence(t *testing.T) {
	a := waiting()
	assert.True(t, a.Apply(PredecessorDeleted{Key: before}).Wake)
	require.Equal(t, Query, a.Next())
	fx := a.Apply(Answered{Found: true, Predecessor: Key{"n/0-1", 2}, Revision: 9})
	assert.Equal(t, Effects{Follow: Key{"n/0-1", 2}, Unfollow: true, From: 10}, fx)
	assert.Equal(t, Sleep, a.Next())
	a.Apply(PredecessorDeleted{Key: before})
	assert.Equal(t, Sleep, a.Next(), "of an earlier predecessor")
}

// A2: an answer counts if it found the acquisition's key, at a revision not below the key's.
func TestAnAnswerThatShowsNothingIsNoEvidence(t *testing.T) {
	for name, ev := range map[string]Answered{
		"not found": {Revision: 9},
		"stale":     {Found: true, Revision: 4},
	} {
		a := waiting()
		a.Apply(WatchEnded{Key: before, Missed: true})
		a.Apply(ev)
		assert.Equal(t, None, a.Evidence, name)
	}
}

func TestAHandoffByThePredecessorIsEvidence(t *testing.T) {
	a := waiting()
	assert.True(t, a.Apply(handoffBy(before, 7)).Wake)
	assert.Equal(t, ByHandoff, a.Evidence)
	a.Apply(Won{})
	assert.Equal(t, Held, a.Phase)
	assert.Equal(t, Effects{}, a.Apply(handoffBy(before, 7)), "known")
	fx := a.Apply(handoffBy(before, 8))
	assert.Equal(t, []any{KeyOverwritten, int64(8), true}, []any{fx.End, fx.At, fx.Held}, "a key is handed off to once")
}

// A successor that receives the queue learns from the handoff who comes after it.
func TestAHandoffCarriesTheSuccessors(t *testing.T) {
	_, by := keys.Split(before.Name)
	rest := keys.NewSuccessors(slices.Values([]keys.Successor{{Name: []byte("4-1"), Create: 6, Value: []byte(label)}}))
	a := waiting()
	a.Apply(OwnChanged{Create: own.Create, Mod: 7, OnLease: true, Value: keys.Successor{Value: []byte(label)}.HandedOff(by, before.Create, rest)})
	a.Apply(Won{})
	next, _, ok := a.Successors.First()
	require.True(t, ok)
	assert.Equal(t, "4-1", string(next.Name))
	a.Apply(Released{})
	assert.True(t, a.Apply(DeleteSent{}).Handoff)
}

func TestAHandoffByAnotherIsAReasonToQuery(t *testing.T) {
	a := waiting()
	a.Apply(handoffBy(Key{"n/9-1", 4}, 7))
	assert.Equal(t, []any{None, Query}, []any{a.Evidence, a.Next()})
}

func TestAHandoffToOneThatTakesNoneIsForeign(t *testing.T) {
	a := Begin(Options{})
	a.Apply(Enqueued{Own: own, Predecessor: before, Whole: true, Revision: 5})
	assert.Equal(t, KeyOverwritten, a.Apply(handoffBy(before, 7)).End)
	assert.Equal(t, Undoing, a.Phase)
}

// The two events of a handoff come in either order.
func TestAHandoffAfterTheDeletionMakesTheQueryNeedless(t *testing.T) {
	a := waiting()
	a.Apply(PredecessorDeleted{Key: before})
	require.Equal(t, Query, a.Next())
	a.Apply(handoffBy(before, 7))
	assert.Equal(t, []any{Win, ByHandoff}, []any{a.Next(), a.Evidence})
}

func TestALostAnswerIsSettled(t *testing.T) {
	a := Begin(Options{})
	a.Apply(AnswerLost{})
	require.Equal(t, Settle, a.Next())
	again := a
	again.Apply(Settled{})
	assert.Equal(t, Enqueue, again.Next())
	a.Apply(Settled{Own: own})
	assert.Equal(t, []any{Query, own}, []any{a.Next(), a.Own})
}

// A6: keys that may exist are deleted, and keys that cannot exist are not.
func TestGivingUpRemovesWhatMayBeThere(t *testing.T) {
	begun, settling, waits := Begin(Options{}), Begin(Options{}), waiting()
	settling.Apply(AnswerLost{})
	for _, c := range []struct {
		a      Machine
		remove bool
	}{{begun, false}, {settling, true}, {waits, true}} {
		fx := c.a.Apply(GaveUp{})
		assert.Equal(t, c.remove, fx.Remove)
		assert.Equal(t, Return, c.a.Next())
		assert.Equal(t, c.remove, c.a.Phase == Undoing)
		c.a.Apply(Removed{})
		assert.Equal(t, Done, c.a.Phase)
	}
}

// A4, N1: the effects of what the renewals' reads show.
// rule: A4
func TestWhatIsObserved(t *testing.T) {
	seen := Observed{Revision: 9, Own: Seen{own.Create, own.Create}, Predecessor: Seen{before.Create, before.Create}}
	with := func(f func(o *Observed)) Observed { o := seen; f(&o); return o }
	for name, c := range map[string]struct {
		ev   Observed
		want Effects
		next Step
	}{
		"as known":              {seen, Effects{}, Sleep},
		"before it was there":   {with(func(o *Observed) { o.Revision, o.Own = 4, Seen{} }), Effects{}, Sleep},
		"predecessor gone":      {with(func(o *Observed) { o.Predecessor = Seen{} }), Effects{Wake: true}, Query},
		"own key gone":          {with(func(o *Observed) { o.Own = Seen{} }), Effects{End: KeyDeleted, Wake: true}, Return},
		"perhaps handed off":    {with(func(o *Observed) { o.Own.Mod = 8 }), Effects{Read: true}, Sleep},
		"predecessor rewritten": {with(func(o *Observed) { o.Predecessor.Mod = 8 }), Effects{}, Sleep},
	} {
		a := waiting()
		assert.Equal(t, c.want, a.Apply(c.ev), name)
		assert.Equal(t, c.next, a.Next(), name)
	}
	alone := Begin(Options{Handoffs: true})
	alone.Apply(Enqueued{Own: own, Whole: true, Revision: 5})
	assert.Equal(t, KeyOverwritten, alone.Apply(Observed{Revision: 9, Own: Seen{own.Create, 8}, Predecessor: Seen{}}).End, "nobody hands off to one without predecessor")
}

func TestWatchesThatEndedAreRenewedByTheNextRead(t *testing.T) {
	a := waiting()
	a.Apply(WatchEnded{Key: own})
	a.Apply(WatchEnded{Key: before})
	seen := Observed{Revision: 9, Own: Seen{own.Create, own.Create}, Predecessor: Seen{before.Create, before.Create}}
	assert.Equal(t, Effects{WatchOwn: true, Follow: before, From: 10}, a.Apply(seen))
	assert.Equal(t, Effects{}, a.Apply(seen), "once")
}

// R1: the next step after a delete, by what is known of it.
// rule: R1
func TestWhatFollowsADelete(t *testing.T) {
	for name, c := range map[string]struct {
		ev   DeleteAnswered
		want Verdict
	}{
		"applied":                            {DeleteAnswered{Outcome: Applied}, Finished},
		"refused":                            {DeleteAnswered{Outcome: Refused}, Explain},
		"refused with a handoff":             {DeleteAnswered{Outcome: Refused, Handoff: true}, Explain},
		"refused, of a certain modification": {DeleteAnswered{Outcome: Refused, Exact: true}, Explain},
		"refused though its key is there":    {DeleteAnswered{Outcome: Refused, Remains: Remains{There: 1}}, Bare},
		"refused, there, with a handoff":     {DeleteAnswered{Outcome: Refused, Handoff: true, Remains: Remains{There: 1}}, Bare},
		"not applied":                        {DeleteAnswered{Outcome: NotApplied}, Stop},
		"not applied with a handoff":         {DeleteAnswered{Outcome: NotApplied, Handoff: true}, Bare},
		"not applied, and nobody waits":      {DeleteAnswered{Outcome: NotApplied, Handoff: true, Ended: true}, Stop},
		"unknown":                            {DeleteAnswered{Outcome: Unknown}, Bare},
		"unknown with a handoff":             {DeleteAnswered{Outcome: Unknown, Handoff: true}, Bare},
		"unknown though repeated":            {DeleteAnswered{Outcome: Unknown, Repeated: true}, Doubt},
		"unknown, and nobody waits":          {DeleteAnswered{Outcome: Unknown, Ended: true}, Doubt},
		"overwritten":                        {DeleteAnswered{Outcome: Applied, Was: OwnChanged{Create: 5, Mod: 9, OnLease: true}}, Lost},
		"applied, and as it was acquired":    {DeleteAnswered{Outcome: Applied, Was: OwnChanged{Create: 5, Mod: 5, OnLease: true}}, Finished},
		"applied, handed off to, and missed": {DeleteAnswered{Outcome: Applied, Was: handoffBy(before, 7)}, Finished},
	} {
		a := holding()
		require.Equal(t, GivenBack, a.Apply(Released{}).End)
		assert.Equal(t, Effects{Handoff: true, Exact: true}, a.Apply(DeleteSent{}), "there is a successor, and no value is in doubt")
		assert.Equal(t, Effects{}, a.Apply(DeleteSent{}), "once")
		assert.Equal(t, c.want, a.Apply(c.ev).Verdict, name)
	}
}

// R1: while a value may have been written, or may be later, the modification revision is not known.
func TestADeleteBesideAValueInDoubtComparesNoModificationRevision(t *testing.T) {
	a := holding()
	a.Apply(Rewriting{[]byte("v")})
	a.Apply(WriteSent{})
	a.Apply(WriteAnswered{Outcome: Unknown, Ended: true})
	a.Apply(Released{})
	assert.False(t, a.Apply(DeleteSent{}).Exact)
}

// R1: we released a key that is gone only if a delete of ours may have been applied before the key
// was missed.
// rule: R1
func TestWhatWasMissedIsALossUnlessADeleteOfOursMayHaveBeenApplied(t *testing.T) {
	lost, missed := DeleteAnswered{Outcome: Unknown}, DeleteAnswered{Outcome: Refused}
	for _, c := range []struct {
		before []Event
		ev     Explained
		want   Verdict
	}{
		{[]Event{missed}, Explained{}, Lost},
		{[]Event{lost, missed}, Explained{}, Finished},
		{[]Event{missed, lost, missed}, Explained{}, Lost},
		{[]Event{lost, missed}, Explained{Remains: Remains{There: 1}}, Lost},
		{[]Event{lost, missed}, Explained{Remains: Remains{Gone: 1, Again: true}}, Lost},
		{[]Event{lost, missed}, Explained{SessionEnded: true}, Lost},
	} {
		a := holding()
		a.Apply(Released{})
		for _, ev := range c.before {
			a.Apply(ev)
		}
		fx := a.Apply(c.ev)
		assert.Equal(t, c.want, fx.Verdict)
		assert.Equal(t, c.want == Lost, a.End != GivenBack)
		assert.Equal(t, Done, a.Phase)
	}
}

// ML5, R1: a set of which some keys are gone was lost, and what is left is deleted. A set that the
// server refuses to delete as a whole is left to the background, unless the read shows that it was
// lost.
// rule: ML5
func TestTheReleaseOfASetIsOneOrLeftToTheBackground(t *testing.T) {
	exact := DeleteAnswered{Outcome: Refused, Exact: true}
	lost, whole := DeleteAnswered{Outcome: Unknown}, DeleteAnswered{Outcome: NotApplied, Whole: true}
	all, part, none := Remains{There: 2}, Remains{There: 1, Gone: 1, Index: 1}, Remains{Gone: 2, Index: 1}
	finished, gone := Effects{Verdict: Finished}, Effects{Verdict: Lost, End: KeyDeleted, Held: true}
	left, rest := finished, gone
	left.Remove, rest.Rest, rest.Own = true, true, 1
	for name, c := range map[string]struct {
		events []Event
		want   Effects
		phase  Phase
	}{
		"all, and one was written to":           {[]Event{DeleteAnswered{Outcome: Refused, Remains: all}}, Effects{Verdict: Bare}, Releasing},
		"some":                                  {[]Event{DeleteAnswered{Outcome: Refused, Remains: part}}, rest, Undoing},
		"some, after a lost answer":             {[]Event{lost, DeleteAnswered{Outcome: Refused, Remains: part}}, rest, Undoing},
		"none":                                  {[]Event{DeleteAnswered{Outcome: Refused, Remains: none}, Explained{Remains: none}}, gone, Done},
		"all, by a read of their own":           {[]Event{exact, Explained{Remains: all}}, Effects{Verdict: Bare}, Releasing},
		"some, by a read of their own":          {[]Event{exact, Explained{Remains: part}}, rest, Undoing},
		"none, by a read of their own":          {[]Event{exact, Explained{Remains: none}}, gone, Done},
		"none, and nothing showed that before":  {[]Event{exact, lost, Explained{Remains: none}}, gone, Done},
		"none, after all and a lost answer":     {[]Event{exact, Explained{Remains: all}, lost, Explained{Remains: none}}, finished, Done},
		"none, after a lost answer":             {[]Event{lost, DeleteAnswered{Outcome: Refused, Remains: none}, Explained{Remains: none}}, finished, Done},
		"refused as a whole":                    {[]Event{whole}, Effects{Verdict: Explain}, Releasing},
		"refused, and all are there":            {[]Event{whole, Explained{Remains: all}}, left, Undoing},
		"refused, and none may be read":         {[]Event{whole, Explained{}}, left, Undoing},
		"refused, and some are there":           {[]Event{whole, Explained{Remains: part}}, rest, Undoing},
		"refused, and none is":                  {[]Event{whole, Explained{Remains: none}}, rest, Undoing},
		"lost, refused, and none is":            {[]Event{lost, whole, Explained{Remains: none}}, left, Undoing},
		"lost together with the refusal":        {[]Event{DeleteAnswered{Outcome: Unknown, Whole: true}, Explained{Remains: none}}, left, Undoing},
		"lost, refused, and the session's end":  {[]Event{lost, whole, Explained{SessionEnded: true, Remains: none}}, Effects{Verdict: Lost, End: SessionEnded, Held: true}, Done},
		"lost, refused, and some may be read":   {[]Event{lost, whole, Explained{Remains: part}}, rest, Undoing},
		"lost, refused, and all made again":     {[]Event{lost, whole, Explained{Remains: Remains{Gone: 2, Index: 1, Again: true}}}, rest, Undoing},
		"refused, the read fails, and is again": {[]Event{whole, whole, Explained{Remains: all}}, left, Undoing},
	} {
		t.Run(name, func(t *testing.T) {
			a := holding()
			a.others = []string{"b"}
			a.Apply(Released{})
			a.Apply(DeleteSent{})
			var fx Effects
			for _, ev := range c.events {
				fx = a.Apply(ev)
			}
			assert.Equal(t, c.want, fx)
			assert.Equal(t, c.phase, a.Phase)
			assert.Equal(t, c.phase != Releasing, a.ReleaseDecided())
		})
	}
}

// A value in doubt stays so until the key's modification revision moves.
// rule: H1
func TestValuesInDoubt(t *testing.T) {
	a := holding()
	write := func(v string, o Outcome) Verdict {
		a.Apply(Rewriting{[]byte(v)})
		a.Apply(WriteSent{})
		return a.Apply(WriteAnswered{Outcome: o, Ended: true}).Verdict
	}
	put := func(v string, mod int64) Effects {
		return a.Apply(OwnChanged{Create: own.Create, Mod: mod, OnLease: true, Value: []byte(v)})
	}
	require.Equal(t, Doubt, write("v", Unknown))
	require.Equal(t, Doubt, write("v", NotApplied), "the first copy may come yet")
	require.Equal(t, Stop, write("w", NotApplied))
	a.Apply(RewriteEnded{})
	assert.Equal(t, Explain, a.Apply(Rewriting{[]byte("x")}).Verdict, "read first")
	a.Apply(RewriteEnded{})
	require.Equal(t, Alive, put("v", 10).End)
	assert.Equal(t, int64(10), a.Mod)
	require.Equal(t, Stop, write("v", NotApplied), "all compared a revision that has passed")
	assert.Equal(t, KeyOverwritten, put("w", 11).End, "it was never in doubt")
}

// A value is not sent again after it has landed: the put would compare the new modification revision,
// and the value would not be in doubt any more.
func TestAValueThatHasLandedIsNotSentAgain(t *testing.T) {
	a := holding()
	a.Apply(Rewriting{[]byte("v")})
	sent := a.Apply(WriteSent{})
	assert.Equal(t, Effects{Verdict: Again, Mod: a.Mod}, sent)
	require.Equal(t, Again, a.Apply(WriteAnswered{Outcome: Unknown}).Verdict)
	a.Apply(OwnChanged{Create: own.Create, Mod: 9, OnLease: true, Value: []byte("v")})
	assert.Equal(t, Effects{Verdict: Finished}, a.Apply(WriteSent{}))
	a.Apply(RewriteEnded{})

	a.Apply(Rewriting{[]byte("w")})
	assert.Equal(t, Effects{Verdict: Again, Mod: 9}, a.Apply(WriteSent{}))
	a.Apply(Released{})
	assert.Equal(t, Effects{Verdict: Lost}, a.Apply(WriteSent{}), "none is written after the term")
}

func TestAWriteIsSentAgainAFewTimes(t *testing.T) {
	a := holding()
	a.Apply(Rewriting{[]byte("v")})
	for range maxLost - 1 {
		a.Apply(WriteSent{})
		require.Equal(t, Again, a.Apply(WriteAnswered{Outcome: Unknown}).Verdict)
	}
	a.Apply(WriteSent{})
	assert.Equal(t, Doubt, a.Apply(WriteAnswered{Outcome: Unknown}).Verdict)
	a.Apply(RewriteEnded{})
	a.Apply(Rewriting{[]byte("v")})
	a.Apply(WriteSent{})
	a.Apply(OwnChanged{Create: own.Create, Mod: 9, OnLease: true, Value: []byte("v")})
	assert.Equal(t, Finished, a.Apply(WriteAnswered{Outcome: Refused}).Verdict, "a copy of it was applied")
}

// A hold that is too long is lost, and its key is deleted after that was reported. HoldExpired
// does not end an acquisition that is not held.
func TestAHoldThatLastedTooLongIsLost(t *testing.T) {
	a := holding()
	assert.Equal(t, Effects{End: HeldTooLong, Held: true}, a.Apply(HoldExpired{}))
	assert.Equal(t, []any{HeldTooLong, Undoing}, []any{a.End, a.Phase})
	assert.Zero(t, a.Apply(HoldExpired{}))
	assert.Zero(t, a.Apply(Released{}), "a release has nothing to give back")
	assert.False(t, a.WasReleased())

	for _, b := range []Machine{Begin(Options{}), waiting()} {
		assert.Zero(t, b.Apply(HoldExpired{}))
		assert.Equal(t, Alive, b.End)
	}
	released := holding()
	released.Apply(Released{})
	assert.Zero(t, released.Apply(HoldExpired{}), "it is given back")
	assert.Equal(t, Releasing, released.Phase)
}

// A release that leaves the key for a while is decided, and nothing replaces it.
func TestAReleaseThatDeletesLaterIsDecidedAtOnce(t *testing.T) {
	a := holding()
	assert.Equal(t, Effects{End: GivenBack, Held: true, Remove: true}, a.Apply(Released{Later: true}))
	assert.Equal(t, []any{GivenBack, Undoing, true}, []any{a.End, a.Phase, a.ReleaseDecided()})
	for _, ev := range []Event{Released{}, OwnDeleted{}, EndOfSession{}, HoldExpired{}, DeleteAnswered{Outcome: Applied}, Explained{}} {
		assert.Equal(t, Alive, a.Apply(ev).End)
		assert.Equal(t, GivenBack, a.End)
	}
}

// rule: H1
func TestTheFirstEndStands(t *testing.T) {
	a := holding()
	require.Equal(t, KeyDeleted, a.Apply(OwnDeleted{}).End)
	for _, ev := range []Event{EndOfSession{}, GaveUp{}, Released{}, OwnDeleted{}, handoffBy(before, 99), Won{}} {
		assert.Equal(t, Alive, a.Apply(ev).End)
	}
	assert.Equal(t, []any{KeyDeleted, Done}, []any{a.End, a.Phase})
}

// SM3: the least of all limits counts, and the number of held slots, not only which.
// rule: SM3
func TestTheLowestFreeSlotOfTheLeastLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		taken []Taken
		slot  int
		ok    bool
	}{
		"none is held":                   {3, nil, 0, true},
		"the lowest":                     {3, []Taken{{0, 3}, {2, 3}}, 1, true},
		"all":                            {2, []Taken{{0, 2}, {1, 2}}, 0, false},
		"as many, by slots above":        {2, []Taken{{3, 5}, {4, 5}}, 0, false},
		"one above":                      {2, []Taken{{4, 5}}, 0, true},
		"another agreed to fewer":        {5, []Taken{{0, 2}, {1, 5}}, 0, false},
		"one that is nobody's keeps all": {5, []Taken{{-1, 0}}, 0, false},
	} {
		slot, ok := Free(c.limit, c.taken)
		assert.Equal(t, []any{c.slot, c.ok}, []any{slot, ok}, name)
	}
}

// trying returns one that is first in the turnstile and takes slot 0.
func trying() Machine {
	a := Begin(Options{Limit: 1})
	a.Apply(Enqueued{Own: own, Whole: true, Revision: 5})
	return a
}

// full returns one that is first in the turnstile of a semaphore whose one slot is held.
func full() Machine {
	a := Begin(Options{Limit: 1})
	a.Apply(Enqueued{Own: own, Whole: true, Revision: 5, Taken: []Taken{{0, 1}}})
	return a
}

var slotKey = Key{"n/s0.1.1-1", 9}

func TestATakeMakesTheSlotsKeyTheOwnOne(t *testing.T) {
	a := trying()
	require.Equal(t, []any{Taking, Take, 0}, []any{a.Phase, a.Next(), a.Slot()})
	assert.Equal(t, Effects{Unwatch: true}, a.Apply(TakeAnswered{Outcome: Applied, Own: slotKey}))
	require.Equal(t, []any{Win, slotKey, ByTake}, []any{a.Next(), a.Own, a.Evidence})
	assert.Zero(t, a.Apply(OwnDeleted{Revision: 9}), "the key in the turnstile, by the take")
	assert.Zero(t, a.Apply(Observed{Revision: 9, Key: own.Name}), "and as a read that began before showed it")
	a.Apply(Won{})
	assert.Equal(t, KeyDeleted, a.Apply(Observed{Revision: 10, Key: slotKey.Name}).End)
}

// SM1: while a take may have deleted the turnstile key, its absence proves nothing.
// rule: SM1
func TestAKeyThatATakeMayHaveDeletedIsQueried(t *testing.T) {
	for _, gone := range []Event{OwnDeleted{Revision: 8}, Observed{Revision: 9}} {
		a := trying()
		assert.Zero(t, a.Apply(gone).End)
		a.Apply(TakeAnswered{Outcome: Unknown})
		require.Equal(t, Query, a.Next())
		assert.Zero(t, a.Apply(gone).End)
		lost := a
		lost.Apply(TakeFound{Own: slotKey})
		assert.Equal(t, []any{Win, slotKey}, []any{lost.Next(), lost.Own})
		assert.Equal(t, KeyDeleted, a.Apply(TakeFound{}).End)
	}
	assert.True(t, func() bool { a := trying(); return a.Apply(GaveUp{}).Remove }())
}

// rule: SM2
func TestOneThatFindsNoSlotWatchesThemAndQueriesAgain(t *testing.T) {
	a := Begin(Options{Limit: 1})
	fx := a.Apply(Enqueued{Own: own, Whole: true, Revision: 5, Taken: []Taken{{0, 1}}})
	assert.Equal(t, Effects{WatchOwn: true, FollowSlots: true, From: 6}, fx)
	require.Equal(t, Sleep, a.Next())
	for name, ev := range map[string]Event{
		"a slot is freed":       SlotFreed{Revision: 7},
		"a watch missed events": SlotsWatchEnded{Missed: true},
	} {
		b := full()
		assert.True(t, b.Apply(ev).Wake, name)
		assert.Equal(t, Query, b.Next(), name)
	}
	seen := Observed{Revision: 9, Own: Seen{own.Create, own.Create}}
	assert.True(t, a.Apply(seen).Wake, "with each renewal")
	require.Equal(t, Query, a.Next())
	a.Apply(SlotFreed{Revision: 12})
	a.Apply(Answered{Found: true, Revision: 11, Taken: []Taken{{0, 1}}})
	require.Equal(t, Query, a.Next(), "the answer is older than what the watch showed")
	assert.Zero(t, a.Apply(Answered{Found: true, Revision: 12, Taken: []Taken{{0, 1}}}), "watched already")
	assert.Equal(t, Sleep, a.Next())
}
