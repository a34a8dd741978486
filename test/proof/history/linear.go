package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// mutex is the state of the model: a mutex with fencing tokens, and a storage
// that checks them.
type mutex struct {
	holder  int64 // the token of who holds; 0: nobody
	highest int64 // of the tokens given out
	stored  int64 // the highest token that the storage has seen
}

// step is an operation on it.
type step struct {
	name  string
	kind  stepKind
	token int64
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
)

// apply says whether the step can be taken in s, and what s is then.
func (st step) apply(s mutex) []mutex {
	one := func(ok bool, to mutex) []mutex {
		if !ok {
			return nil
		}
		return []mutex{to}
	}
	switch st.kind {
	case grant:
		return one(s.holder == 0 && st.token > s.highest, mutex{st.token, st.token, s.stored})
	case hold, write:
		return one(s.holder == st.token, s)
	case end:
		return one(s.holder == st.token, mutex{0, s.highest, s.stored})
	case store:
		return one(st.token >= s.stored, mutex{s.holder, s.highest, st.token})
	case refusal:
		return one(st.token < s.stored, s)
	default: // perhaps: it was stored or not, now or later
		return []mutex{s, {s.holder, s.highest, max(s.stored, st.token)}}
	}
}

// model is a fenced mutex for each name.
func model() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byName := map[string][]porcupine.Operation{}
			for _, o := range history {
				name := o.Input.(step).name
				byName[name] = append(byName[name], o)
			}
			var parts [][]porcupine.Operation
			for _, p := range byName {
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
			return fmt.Sprintf("%s %d", st.kind, st.token)
		},
		DescribeState: func(state any) string {
			s := state.(mutex)
			return fmt.Sprintf("held by %d, highest %d, stored %d", s.holder, s.highest, s.stored)
		},
	}).ToModel()
}

// steps turns a history into operations of the model. Looks and ends of one
// holding become few: what is over stays over, which Intervals checks.
func steps(ops []Op) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(o Op, kind stepKind, call, ret time.Duration) {
		out = append(out, porcupine.Operation{
			ClientId: o.Client, Input: step{o.Name, kind, o.Token}, Call: int64(call), Return: int64(ret)})
	}
	all, _ := holdings(ops)
	forever := time.Duration(math.MaxInt64)
	for i, h := range all {
		a := h.acquire
		add(a, grant, a.Call, a.Return)
		if h.told() && h.last.Kind == Look {
			add(h.last, hold, h.last.Call, h.last.Return)
		}
		if r := h.release; r != nil && r.Outcome == OK {
			add(*r, end, h.given, r.Return)
			continue
		}
		// It ended at some moment after it was last known to last, and before
		// somebody else's began.
		until := forever
		for _, next := range all[i+1:] {
			if next.acquire.Name == a.Name && next.acquire.Token > a.Token {
				until = min(until, next.acquire.Return)
			}
		}
		begin := max(a.Call, h.until)
		add(a, end, begin, max(begin, until))
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

// Linearizable looks for an order in which a fenced mutex behaves like the
// history. Not decided within the timeout counts as found; decided tells.
func Linearizable(ops []Op, timeout time.Duration) (ok, decided bool, info porcupine.LinearizationInfo) {
	result, info := porcupine.CheckOperationsVerbose(model(), steps(ops), timeout)
	return result != porcupine.Illegal, result != porcupine.Unknown, info
}
