package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Grace is what a call may take beyond its context's end.
const Grace = 100 * time.Millisecond

// Violation is what cannot be true of a history.
type Violation struct {
	What string `json:"what"`
	Ops  []Op   `json:"ops"`
}

// String is what is wrong, and the operations that show it, a line each.
func (v Violation) String() string {
	s := v.What
	for _, o := range v.Ops {
		s += "\n\t" + o.String()
	}
	return s
}

// holding is what one holder was told from first to last.
type holding struct {
	acquire Op
	until   time.Duration // it certainly was told that it holds until then
	last    Op            // the operation that said so
	over    *Op           // the first look that said otherwise
	release *Op           // the last one
	given   time.Duration // the call of the first; -1: none
}

type holder struct {
	name  string
	token int64
}

// holdings gathers each holder's operations, in the order of their acquisitions'
// returns.
func holdings(ops []Op) ([]*holding, []Violation) {
	all := map[holder]*holding{}
	var list []*holding
	var bad []Violation
	for i := range ops {
		if o := ops[i]; o.Kind == Acquire && o.Outcome == OK {
			id := holder{o.Name, o.Token}
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
		if h := all[holder{ops[i].Name, ops[i].Token}]; h != nil {
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
		// It was so at some moment from the call on, and what is over stays over:
		// so it was so at the call.
		h.hold(o.Call, *o)
	case o.Kind == Look && (h.over == nil || o.Return < h.over.Return):
		h.over = o
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

// close reckons with the release: nil, at whichever attempt, means that it held
// until the first one was called.
func (h *holding) close() {
	if h.release != nil && h.release.Outcome == OK {
		h.hold(h.given, *h.release)
	}
}

// told reports whether the holder was ever told that it holds, beyond Acquire.
func (h *holding) told() bool { return h.until >= h.acquire.Return }

// Intervals checks what can be seen by comparing times. Its violations are in
// no particular order.
func Intervals(ops []Op) []Violation {
	all, bad := holdings(ops)
	byName := map[string][]*holding{}
	for _, h := range all {
		byName[h.acquire.Name] = append(byName[h.acquire.Name], h)
		if h.over != nil && h.told() && h.until > h.over.Return {
			bad = append(bad, Violation{"what was over came back", []Op{*h.over, h.last}})
		}
	}
	for _, list := range byName {
		bad = append(bad, overlaps(list)...)
	}
	return append(append(bad, writes(ops, all)...), durations(ops)...)
}

// overlaps looks at the holdings of one name, in the order of their acquisitions'
// returns.
func overlaps(list []*holding) (bad []Violation) {
	var latest, highest *holding // of those told so far: the one that lasted longest, the greatest token
	for _, h := range list {
		if !h.told() {
			continue
		}
		if latest != nil && latest.until > h.acquire.Return {
			bad = append(bad, Violation{"two held at the same time", []Op{latest.acquire, latest.last, h.acquire, h.last}})
		}
		if highest != nil && highest.acquire.Token > h.acquire.Token {
			bad = append(bad, Violation{"a later holder has a smaller token", []Op{highest.acquire, h.acquire}})
		}
		if latest == nil || h.until > latest.until {
			latest = h
		}
		if highest == nil || h.acquire.Token > highest.acquire.Token {
			highest = h
		}
	}
	return bad
}

// writes looks at writes to storage: one that was accepted after one with a
// greater token had been, and one that was refused to somebody who still held
// afterwards.
func writes(ops []Op, all []*holding) (bad []Violation) {
	until := map[holder]*holding{}
	for _, h := range all {
		until[holder{h.acquire.Name, h.acquire.Token}] = h
	}
	sorted := slices.Clone(ops)
	slices.SortFunc(sorted, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	type key struct {
		kind Kind
		name string
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
		k := key{o.Kind, o.Name}
		switch o.Outcome {
		case OK:
			for _, b := range slices.Backward(seen[k]) {
				if b.at < o.Call {
					if b.op.Token > o.Token {
						bad = append(bad, Violation{"a write was accepted after one with a greater token", []Op{b.op, o}})
					}
					break
				}
			}
			if n := len(seen[k]); n == 0 || seen[k][n-1].op.Token < o.Token {
				seen[k] = append(seen[k], best{o.Return, o})
			}
		case Refused:
			if h := until[holder{o.Name, o.Token}]; h != nil && h.until > o.Return {
				bad = append(bad, Violation{"a write was refused to one who still held", []Op{o, h.last}})
			}
		}
	}
	return bad
}

// durations looks for calls that returned too late.
func durations(ops []Op) (bad []Violation) {
	for _, o := range ops {
		if o.Limit == 0 {
			continue
		}
		if end := max(o.Limit, o.Call); o.Return > end+Grace+o.Slack {
			bad = append(bad, Violation{
				fmt.Sprintf("a call returned %v after its context's end", o.Return-end), []Op{o}})
		}
	}
	return bad
}
