package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// script reads events from bytes; the same bytes are the same events.
type script struct{ b []byte }

func (s *script) n(n int) int {
	if len(s.b) == 0 {
		return 0
	}
	v := int(s.b[0]) % n
	s.b = s.b[1:]
	return v
}

func (s *script) bool() bool { return s.n(2) == 1 }
func (s *script) rev() int64 { return int64(s.n(12)) }
func (s *script) key() Key   { return Key{fmt.Sprintf("n/%d-1", 1+s.n(3)), s.rev()} }
func (s *script) ofKey() string {
	return []string{"", "", s.key().Name}[s.n(3)]
}
func (s *script) seen() Seen    { return Seen{s.rev(), s.rev()} }
func (s *script) out() Outcome  { return Outcome(s.n(4)) }
func (s *script) value() []byte { return []byte{'a' + byte(s.n(3))} }
func (s *script) name() []byte  { return fmt.Appendf(nil, "%d-1", 1+s.n(3)) }
func (s *script) list() keys.Successors {
	var all []keys.Successor
	for range s.n(3) {
		all = append(all, keys.Successor{Name: s.name(), Create: s.rev(), Value: []byte(label)})
	}
	return keys.NewSuccessors(slices.Values(all))
}

// others returns a set's other keys, and usually none.
func (s *script) others() []string { return []string{"m/1-1", "o/1-1"}[:s.n(5)/2] }

// taken returns held slots, some of them of another limit, and one of a foreign key.
func (s *script) taken() (all []Taken) {
	for range s.n(4) {
		all = append(all, Taken{s.n(4) - 1, s.n(4)})
	}
	return all
}

func (s *script) changed() OwnChanged {
	ev := OwnChanged{Index: s.n(3), Create: s.rev(), Mod: s.rev(), OnLease: s.bool(), Value: s.value()}
	if s.bool() {
		ev.Value = keys.Successor{Value: []byte(label)}.HandedOff(string(s.name()), s.rev(), s.list())
	}
	return ev
}

func (s *script) remains() Remains { return Remains{s.n(3), s.n(3), s.n(3), s.bool()} }

func (s *script) event() Event {
	switch s.n(30) {
	case 0:
		return Enqueued{Own: s.key(), Others: s.others(), Predecessor: s.key(), Whole: s.bool(), Revision: s.rev(), Taken: s.taken()}
	case 1:
		return Enqueued{Own: s.key(), Others: s.others(), Whole: s.bool(), Revision: s.rev(), Taken: s.taken()}
	case 2:
		return AnswerLost{}
	case 3:
		return Settled{s.key(), s.others()}
	case 4:
		return Answered{s.bool(), s.key(), s.rev(), s.list(), s.taken()}
	case 5:
		return Answered{Found: s.bool(), Revision: s.rev(), Successors: s.list(), Taken: s.taken()}
	case 6, 7, 8:
		return PredecessorDeleted{s.key()}
	case 9:
		return WatchEnded{s.key(), s.bool()}
	case 10, 11:
		return Observed{s.rev(), s.seen(), s.seen(), s.n(3), s.ofKey()}
	case 12, 13:
		return s.changed()
	case 14:
		return OwnDeleted{s.n(3), s.rev()}
	case 15:
		return Armed{}
	case 16:
		return Won{}
	case 17:
		return Released{s.bool()}
	case 18:
		return DeleteSent{}
	case 19:
		return DeleteAnswered{s.out(), s.bool(), s.bool(), s.remains(), s.bool(), s.bool(), s.bool(), s.changed()}
	case 20:
		return Explained{s.bool(), s.remains()}
	case 21:
		return Rewriting{s.value()}
	case 22:
		return WriteSent{}
	case 23:
		return WriteAnswered{s.out(), s.rev(), s.bool(), s.bool()}
	case 25:
		return TakeAnswered{s.out(), s.key()}
	case 26:
		return TakeFound{s.key()}
	case 27:
		return SlotFreed{s.rev()}
	case 28:
		return SlotsWatchEnded{s.bool()}
	case 29:
		return Answered{Found: true, Revision: 11}
	}
	return []Event{EndOfSession{}, GaveUp{}, Removed{}, ReadEnded{}, RewriteEnded{}, HoldExpired{}}[s.n(6)]
}

// Whatever happens, in whatever order, the invariants hold and nothing panics.
// rule: A2
func FuzzAnAcquisitionKeepsItsInvariants(f *testing.F) {
	f.Add([]byte{3, 1, 5, 1, 6, 16, 17, 18, 19})
	f.Add([]byte{1, 2, 3, 5, 14, 24, 0, 17})
	f.Add([]byte{0, 1, 5, 0, 3, 1, 5, 12, 5, 7, 1, 0, 1, 0, 3, 16, 21, 1, 22, 23, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{b}
		a := Begin(Options{Handoffs: s.bool(), Limit: max(s.n(6)-2, 0)})
		for len(s.b) > 0 {
			ev := s.event()
			was := a
			fx := a.Apply(ev)
			if bad := broken(was, a, ev, fx); bad != "" {
				require.Fail(t, bad, "%+v --%T%+v--> %+v, %+v", was, ev, ev, a, fx)
			}
		}
	})
}

// broken names an invariant that this transition breaks, or returns "".
func broken(was, a Machine, ev Event, fx Effects) string {
	_, won := ev.(Won)
	took := a.Evidence == ByTake && was.Evidence == None
	holds := a.Phase == Held || a.Phase == Releasing
	switch {
	case was.Own.Create != 0 && was.Own != a.Own && !took:
		return "the token changed"
	case took && a.Own.Create <= was.Own.Create:
		return "the token of a slot is not above the key in the turnstile"
	case a.Limit > 0 && a.Evidence != None && a.Evidence != ByTake:
		return "held without a slot"
	case a.Limit == 0 && (a.Evidence == ByTake || a.Phase == Full || a.Phase == Taking || a.Trying()):
		return "a slot, and no semaphore"
	case took && !was.Trying(), a.Evidence == ByTake && a.Trying():
		return "taken, and not tried, or tried still"
	case was.Trying() && a.End == KeyDeleted && was.End == Alive && !isFound(ev):
		return "ended by the loss of a key that a take may have deleted"
	case was.Trying() && was.End == Alive && a.End != Alive && a.End != SessionEnded && a.End != KeyDeleted && !fx.Remove:
		return "what was tried is not removed"
	case fx.FollowSlots && (a.Phase != Full || !a.slots.watched || was.slots.watched && !fx.Unfollow), a.Phase == Full && was.Phase != Full && !a.slots.watched:
		return "full, and the slots are not watched"
	case a.Phase == Full && was.Phase != Full && a.slots.freed > revisionOf(ev):
		return "full, by an answer older than a deletion that is known"
	case was.Own.Create != 0 && a.Mod < was.Mod:
		return "the modification revision went back"
	case was.Evidence != None && a.Evidence != was.Evidence:
		return "evidence is set once"
	case holds && (a.Evidence == None || a.Own.Create <= 0 || a.Predecessor != Key{}):
		return "held without evidence"
	case a.Phase == Owner && a.Evidence == None, a.Phase < Owner && a.Evidence != None:
		return "an owner without evidence, or evidence without an owner"
	case a.Phase == Held && was.Phase != Held && !won:
		return "held without a reading of the clock"
	case was.End != Alive && was.End != GivenBack && a.End != was.End:
		return "the first end does not stand"
	case was.End == GivenBack && a.End != GivenBack && was.Phase != Releasing:
		return "an end that was decided changed"
	case (was.End != a.End) != (fx.End != Alive), fx.End != Alive && fx.End != a.End:
		return "an end is an effect, once"
	case a.End == HeldTooLong && was.End == Alive && was.Phase != Held:
		return "held for too long, and not held"
	case fx.Rest && (was.Phase != Held && was.Phase != Releasing || fx.Remove), fx.Rest && was.Phase == Held && !a.set(), a.set() && fx.Remove && was.Phase == Held && fx.End != GivenUp:
		return "the rest of a set is removed though it was held"
	case a.set() && fx.End == KeyDeleted && was.Phase < Held && was.Own.Create != 0 && !fx.Remove:
		return "the rest of a set that waited stays"
	case a.End == Alive && a.Phase > Held:
		return "over, and alive"
	case a.Evidence != was.Evidence:
		return brokenA2(was, a, ev)
	}
	return ""
}

func isFound(ev Event) bool {
	_, found := ev.(TakeFound)
	return found
}

// revisionOf returns the revision of an answer that shows slots.
func revisionOf(ev Event) int64 {
	switch ev := ev.(type) {
	case Enqueued:
		return ev.Revision
	case Answered:
		return ev.Revision
	}
	return 0
}

// brokenA2 states rule A2 a second time: which events make an acquisition the owner, and what they
// contain.
func brokenA2(was, a Machine, ev Event) string {
	ok := was.End == Alive
	switch ev := ev.(type) {
	case Enqueued:
		ok = ok && ev.Whole && ev.Predecessor == Key{} && a.Evidence == ByEnqueue
	case Answered:
		ok = ok && ev.Found && ev.Predecessor == Key{} && ev.Revision >= a.Own.Create && a.Evidence == ByAnswer
	case TakeAnswered:
		ok = ok && was.Phase == Taking && ev.Outcome == Applied && ev.Own == a.Own && a.Evidence == ByTake
	case TakeFound:
		ok = ok && was.Phase == Querying && ev.Own == a.Own && a.Evidence == ByTake
	case OwnChanged:
		h, parsed := keys.ParseHandoff(ev.Value)
		ok = ok && parsed && a.Evidence == ByHandoff && ev.OnLease && ev.Create == a.Own.Create && was.Predecessor == Key{"n/" + string(h.By), h.Create}
	default:
		ok = false
	}
	if !ok {
		return "this is no evidence"
	}
	return ""
}
