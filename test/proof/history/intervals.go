package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Grace is what a call may take beyond its context's end.
const Grace = 100 * time.Millisecond

// Violation is something that cannot be true in a history.
type Violation struct {
	What string `json:"what"`
	Ops  []Op   `json:"ops"`
}

// String returns what is wrong, and the operations that show it, one line each.
func (v Violation) String() string {
	s := v.What
	for _, o := range v.Ops {
		s += "\n\t" + o.String()
	}
	return s
}

// holding is all that one holder learned.
type holding struct {
	acquire Op
	until   time.Duration // it certainly believed until then that it holds
	last    Op            // the operation that showed so
	ended   *Op           // the first check that returned an error
	release *Op           // the last one
	given   time.Duration // the call of the first, or -1
}

type holder struct {
	name  string
	slot  int
	token int64
}

// holder identifies the holder of an operation.
func (o Op) holder() holder { return holder{o.Name, o.Slot, o.Token} }

// excludes reports whether two acquisitions cannot both hold.
func (o Op) excludes(other Op) bool {
	return o.Name == other.Name && o.Slot == other.Slot && !(o.Shared && other.Shared)
}

// holdings gathers each holder's operations, in the order of their acquisitions'
// returns.
func holdings(ops []Op) ([]*holding, []Violation) {
	all := map[holder]*holding{}
	var list []*holding
	var bad []Violation
	for i := range ops {
		if o := ops[i]; o.Kind == Acquire && o.Outcome == OK {
			id := o.holder()
			if other := all[id]; other != nil {
				bad = append(bad, Violation{"a token was given out twice", []Op{other.acquire, o}})
				continue
			}
			h := &holding{acquire: o, until: -1, last: o, given: -1}
			all[id] = h
			list = append(list, h)
		}
	}
	for i := range ops {
		if h := all[ops[i].holder()]; h != nil {
			h.add(&ops[i])
		}
	}
	for _, h := range list {
		h.close()
	}
	slices.SortFunc(list, func(a, b *holding) int { return cmp.Compare(a.acquire.Return, b.acquire.Return) })
	return list, bad
}

func (h *holding) add(o *Op) {
	switch {
	case o.Kind == Look && o.Outcome == OK:
		// It was so at some moment after the call, and what has ended stays ended, so it was so at
		// the call.
		h.hold(o.Call, *o)
	case o.Kind == Look && (h.ended == nil || o.Return < h.ended.Return):
		h.ended = o
	case o.Kind == Release:
		if h.given < 0 || o.Call < h.given {
			h.given = o.Call
		}
		if h.release == nil || o.Return > h.release.Return {
			h.release = o
		}
	}
}

func (h *holding) hold(until time.Duration, says Op) {
	if until > h.until {
		h.until, h.last = until, says
	}
}

// close applies the release. A nil, whichever call returns it, means that it held until the first
// one was called.
func (h *holding) close() {
	if h.release != nil && h.release.Outcome == OK {
		h.hold(h.given, *h.release)
	}
}

// seen reports whether the holder ever learned that it holds, other than by Acquire.
func (h *holding) seen() bool { return h.until >= h.acquire.Return }

// Intervals checks what comparing times can show. Its violations are in no particular order.
func Intervals(ops []Op) []Violation {
	all, bad := holdings(ops)
	byName := map[holder][]*holding{}
	for _, h := range all {
		of := h.acquire.holder()
		of.token = 0
		byName[of] = append(byName[of], h)
		if h.ended != nil && h.seen() && h.until > h.ended.Return {
			bad = append(bad, Violation{"what had ended came back", []Op{*h.ended, h.last}})
		}
	}
	for _, list := range byName {
		bad = append(bad, overlaps(list)...)
	}
	bad = append(bad, overLimit(all)...)
	return append(append(bad, writes(ops, all)...), durations(ops)...)
}

// overlaps checks the holdings of one name, in the order of their acquisitions' returns.
func overlaps(list []*holding) (bad []Violation) {
	// These are, of the exclusive and of the shared holdings so far, the one that lasted longest
	// and the one with the greatest token.
	var latest, highest [2]*holding
	for _, h := range list {
		if !h.seen() {
			continue
		}
		mode := 0
		if h.acquire.Shared {
			mode = 1
		}
		for other := range 2 - mode { // shared ones only exclude exclusive ones
			if l := latest[other]; l != nil && l.until > h.acquire.Return {
				bad = append(bad, Violation{"two held at the same time", []Op{l.acquire, l.last, h.acquire, h.last}})
			}
			if g := highest[other]; g != nil && g.acquire.Token > h.acquire.Token {
				bad = append(bad, Violation{"a later holder has a smaller token", []Op{g.acquire, h.acquire}})
			}
		}
		if l := latest[mode]; l == nil || h.until > l.until {
			latest[mode] = h
		}
		if g := highest[mode]; g == nil || h.acquire.Token > g.acquire.Token {
			highest[mode] = h
		}
	}
	return bad
}

// overLimit checks semaphores, of which no more may hold at once than any of them allows. A lock of
// the same name is separate. all is in the order of the acquisitions' returns.
func overLimit(all []*holding) (bad []Violation) {
	inside := map[string][]*holding{}
	for _, h := range all {
		if !h.seen() || h.acquire.Slot == 0 {
			continue
		}
		name := h.acquire.Name
		list := slices.DeleteFunc(inside[name], func(other *holding) bool { return other.until <= h.acquire.Return })
		list = append(list, h)
		inside[name] = list
		least := h.acquire.Permits
		for _, other := range list {
			least = min(least, other.acquire.Permits)
		}
		if permits := len(list); permits > least {
			v := Violation{What: fmt.Sprintf("more held at the same time than one of them agreed to: %d, of at most %d", permits, least)}
			for _, other := range list {
				v.Ops = append(v.Ops, other.acquire, other.last)
			}
			bad = append(bad, v)
		}
	}
	return bad
}

// writes checks writes to storage. No write may be accepted after one with a greater token that
// excludes it, and none may be refused for somebody who still held afterwards.
func writes(ops []Op, all []*holding) (bad []Violation) {
	until := map[holder]*holding{}
	for _, h := range all {
		until[h.acquire.holder()] = h
	}
	sorted := slices.Clone(ops)
	slices.SortFunc(sorted, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	type key struct {
		kind   Kind
		of     holder // without a token
		shared bool
	}
	type best struct {
		at time.Duration
		op Op
	}
	seen := map[key][]best{} // accepted, with tokens that increase
	for _, o := range sorted {
		if o.Kind != Guarded && o.Kind != Fenced {
			continue
		}
		h := until[o.holder()]
		k := key{o.Kind, holder{o.Name, o.Slot, 0}, h != nil && h.acquire.Shared}
		switch o.Outcome {
		case OK:
			for _, shared := range []bool{false, true} {
				if shared && k.shared {
					continue // shared ones exclude only exclusive ones
				}
				for _, b := range slices.Backward(seen[key{k.kind, k.of, shared}]) {
					if b.at < o.Call {
						if b.op.Token > o.Token {
							bad = append(bad, Violation{"a write was accepted after one with a greater token", []Op{b.op, o}})
						}
						break
					}
				}
			}
			if n := len(seen[k]); n == 0 || seen[k][n-1].op.Token < o.Token {
				seen[k] = append(seen[k], best{o.Return, o})
			}
		case Refused:
			if h != nil && h.until > o.Return {
				bad = append(bad, Violation{"a write was refused to one who still held", []Op{o, h.last}})
			}
		}
	}
	return bad
}

// durations finds calls that returned too late.
func durations(ops []Op) (bad []Violation) {
	for _, o := range ops {
		if o.Limit == 0 {
			continue
		}
		if end := max(o.Limit, o.Call); o.Return > end+Grace {
			bad = append(bad, Violation{
				fmt.Sprintf("a call returned %v after its context's end", o.Return-end), []Op{o}})
		}
	}
	return bad
}
