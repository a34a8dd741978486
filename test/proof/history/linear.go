package history

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// mutex is the state of the model: a read-write mutex with fencing tokens, or one slot of
// a semaphore, and a storage that checks them.
type mutex struct {
	holder  int64   // the token of the exclusive holder; 0 if nobody
	readers readers // the tokens of the shared ones
	given   highest // the tokens given out
	stored  highest // the tokens that were issued

	inside permitHolders // of a name with a semaphore: all who hold it
}

// permitHolders are all holders of a semaphore, each as "token:limit", in order.
type permitHolders string

// allSlots is the slot of the steps that concern all of a semaphore's slots.
const allSlots = -1

// admits reports whether one with this limit may join them. A permit may if no more hold then
// than any of them allows.
func (c permitHolders) admits(limit int) bool {
	all := strings.Fields(string(c))
	least := limit
	for _, text := range all {
		_, of, _ := strings.Cut(text, ":")
		other, _ := strconv.Atoi(of) // it was written by with
		least = min(least, other)
	}
	return len(all) < least
}

func (c permitHolders) member(st step) string { return fmt.Sprintf("%d:%d", st.token, st.limit) }

func (c permitHolders) has(st step) bool {
	return slices.Contains(strings.Fields(string(c)), c.member(st))
}

func (c permitHolders) with(st step) permitHolders {
	all := append(strings.Fields(string(c)), c.member(st))
	slices.Sort(all)
	return permitHolders(strings.Join(all, " "))
}

func (c permitHolders) without(st step) permitHolders {
	return permitHolders(strings.Join(slices.DeleteFunc(strings.Fields(string(c)), func(m string) bool { return m == c.member(st) }), " "))
}

// highest are the greatest exclusive token, and the greatest of any.
type highest struct{ exclusive, any int64 }

// with is h after a token.
func (h highest) with(st step) highest {
	h.any = max(h.any, st.token)
	if !st.shared {
		h.exclusive = max(h.exclusive, st.token)
	}
	return h
}

// admits is the rule of the two registers (K2).
func (h highest) admits(st step) bool {
	if st.shared {
		return st.token > h.exclusive
	}
	return st.token >= h.any
}

// readers is a set of tokens, as their text in order, so that states can be compared.
type readers string

func (r readers) tokens() (all []int64) {
	for _, text := range strings.Fields(string(r)) {
		token, _ := strconv.ParseInt(text, 10, 64) // it was written by set
		all = append(all, token)
	}
	return all
}

func (r readers) has(token int64) bool { return slices.Contains(r.tokens(), token) }

func set(tokens []int64) readers {
	slices.Sort(tokens)
	return readers(strings.Trim(fmt.Sprint(tokens), "[]"))
}

// step is an operation on it.
type step struct {
	name   string
	slot   int
	kind   stepKind
	token  int64
	shared bool
	limit  int // of the one that comes or goes
}

type stepKind string

const (
	grant   stepKind = "acquire"
	hold    stepKind = "holds"
	end     stepKind = "ends" // released, or lost
	write   stepKind = "guarded write"
	store   stepKind = "fenced write"
	refusal stepKind = "fenced write refused"
	perhaps stepKind = "fenced write, unknown"
	comes   stepKind = "comes to hold"
	goes    stepKind = "holds no more"
)

// apply returns the states after the step, and none if the step cannot be taken in s.
func (st step) apply(s mutex) []mutex {
	one := func(ok bool, to mutex) []mutex {
		if !ok {
			return nil
		}
		return []mutex{to}
	}
	to := s
	holds := s.holder == st.token || st.shared && s.readers.has(st.token)
	switch st.kind {
	case grant:
		free := s.holder == 0 && st.token > s.given.any
		if st.shared {
			free = s.holder == 0 && st.token > s.given.exclusive
			to.readers = set(append(s.readers.tokens(), st.token))
		} else {
			to.holder, free = st.token, free && s.readers == ""
		}
		to.given = s.given.with(st)
		return one(free, to)
	case comes:
		to.inside = s.inside.with(st)
		return one(s.inside.admits(st.limit), to)
	case goes:
		to.inside = s.inside.without(st)
		return one(s.inside.has(st), to)
	case hold, write:
		return one(holds, s)
	case end:
		if to.holder == st.token {
			to.holder = 0
		}
		to.readers = set(slices.DeleteFunc(s.readers.tokens(), func(t int64) bool { return t == st.token }))
		return one(holds, to)
	case store:
		to.stored = s.stored.with(st)
		return one(s.stored.admits(st), to)
	case refusal:
		return one(!s.stored.admits(st), s)
	default: // unknown, so it may have been stored, now or later
		to.stored = s.stored.with(st)
		if !s.stored.admits(st) {
			return []mutex{s}
		}
		return []mutex{s, to}
	}
}

// model is a fenced read-write mutex for each name, and for each slot, and a counter for all
// slots of a name.
func model() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			type mutex struct {
				name string
				slot int
			}
			of := map[mutex][]porcupine.Operation{}
			for _, o := range history {
				st := o.Input.(step)
				m := mutex{st.name, st.slot}
				of[m] = append(of[m], o)
			}
			var parts [][]porcupine.Operation
			for _, p := range of {
				parts = append(parts, p)
			}
			return parts
		},
		Init: func() []any { return []any{mutex{}} },
		Step: func(state, input, _ any) []any {
			var to []any
			for _, s := range input.(step).apply(state.(mutex)) {
				to = append(to, s)
			}
			return to
		},
		DescribeOperation: func(input, _ any) string {
			st := input.(step)
			if st.shared {
				return fmt.Sprintf("%s %d, shared", st.kind, st.token)
			}
			return fmt.Sprintf("%s %d", st.kind, st.token)
		},
		DescribeState: func(state any) string {
			s := state.(mutex)
			return fmt.Sprintf("held by %d, readers %s, given %v, stored %v, inside %s", s.holder, s.readers, s.given, s.stored, s.inside)
		},
	}).ToModel()
}

// steps converts a history to operations of the model. Looks and ends of one holding are
// merged, because Intervals checks that what has ended stays ended.
func steps(ops []Op) []porcupine.Operation {
	var out []porcupine.Operation
	all, _ := holdings(ops)
	shared := map[holder]bool{}
	for _, h := range all {
		shared[h.acquire.holder()] = h.acquire.Shared
	}
	add := func(o Op, kind stepKind, call, ret time.Duration) {
		out = append(out, porcupine.Operation{
			ClientId: o.Client, Input: step{o.Name, o.Slot, kind, o.Token, shared[o.holder()], 0}, Call: int64(call), Return: int64(ret)})
	}
	// permit adds that a holding begins or ends, if it is of a semaphore.
	permit := func(h *holding, kind stepKind, call, ret time.Duration) {
		if a := h.acquire; a.Slot > 0 {
			out = append(out, porcupine.Operation{
				ClientId: a.Client, Input: step{a.Name, allSlots, kind, a.Token, false, a.Permits}, Call: int64(call), Return: int64(ret)})
		}
	}
	forever := time.Duration(math.MaxInt64)
	for i, h := range all {
		a := h.acquire
		add(a, grant, a.Call, a.Return)
		permit(h, comes, a.Call, a.Return)
		if h.seen() && h.last.Kind == Look {
			add(h.last, hold, h.last.Call, h.last.Return)
		}
		if r := h.release; r != nil && r.Outcome == OK {
			add(*r, end, h.given, r.Return)
			permit(h, goes, h.given, r.Return)
			continue
		}
		// It ended at some moment after it was last known to last, and before
		// somebody else's began.
		until := forever
		for _, next := range all[i+1:] {
			if next.acquire.excludes(a) && next.acquire.Token > a.Token {
				until = min(until, next.acquire.Return)
			}
		}
		begin := max(a.Call, h.until)
		add(a, end, begin, max(begin, until))
		permit(h, goes, begin, max(begin, until))
	}
	for _, o := range ops {
		switch {
		case o.Kind == Guarded && o.Outcome == OK:
			add(o, write, o.Call, o.Return)
		case o.Kind == Fenced && o.Outcome == OK:
			add(o, store, o.Call, o.Return)
		case o.Kind == Fenced && o.Outcome == Refused:
			add(o, refusal, o.Call, o.Return)
		case o.Kind == Fenced && o.Outcome == Unknown:
			add(o, perhaps, o.Call, forever)
		}
	}
	return out
}

// Linearizable searches for an order in which fenced mutexes behave like the history. If that is
// not decided within the timeout, ok is true and decided false.
func Linearizable(ops []Op, timeout time.Duration) (ok, decided bool, info porcupine.LinearizationInfo) {
	result, info := porcupine.CheckOperationsVerbose(model(), steps(ops), timeout)
	return result != porcupine.Illegal, result != porcupine.Unknown, info
}
