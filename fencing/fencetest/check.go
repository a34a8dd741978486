package fencetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Check replays a history. It returns nil, a *Violation for the first operation that breaks a rule, or
// another error if it is not a history: a return before its call, or two writes of one value to one
// resource. Written values must differ for each resource and not be empty. The order of the slice does
// not matter.
//
// Two operations conflict if their tokens differ and at least one of them is exclusive. Of two that
// conflict and were applied, the one with the smaller token took effect first, whatever their times,
// because that is what a guard ensures. All rules follow from that order and the order of time.
//
// It deliberately compares every operation with every other of its resource, so that the rules can be
// read off the code. Ten thousand operations on one resource take about a second.
func Check(history []Op) error {
	byResource := map[string]*log{}
	for i := range history {
		o := &history[i]
		l := byResource[o.Resource]
		if l == nil {
			l = &log{wrote: map[string]*Op{}}
			byResource[o.Resource] = l
		}
		if err := l.add(o); err != nil {
			return err
		}
	}
	ordered := make([]*Op, len(history))
	for i := range history {
		ordered[i] = &history[i]
	}
	slices.SortStableFunc(ordered, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range ordered {
		if v := byResource[o.Resource].violation(o); v != nil {
			return v
		}
	}
	return nil
}

// A log is the part of a history that concerns one resource.
type log struct {
	ops   []*Op
	wrote map[string]*Op // by value
}

func (l *log) add(o *Op) error {
	if o.Return < o.Call {
		return fmt.Errorf("fencetest: not a history: an operation returns before it is called: %v", o)
	}
	l.ops = append(l.ops, o)
	if o.Kind != Write {
		return nil
	}
	if other := l.wrote[o.Value]; other != nil || o.Value == "" {
		return fmt.Errorf("fencetest: not a history: values must be unique and not empty: %v", o)
	}
	l.wrote[o.Value] = o
	return nil
}

func (l *log) violation(o *Op) *Violation {
	switch {
	case o.Outcome == Refused:
		return l.needless(o)
	case o.Outcome != Applied:
		return nil
	case o.Token <= 0:
		return &Violation{Rule: "no token, and admitted", Op: *o}
	}
	if v := l.stale(o); v != nil || o.Kind == Write {
		return v
	}
	return l.wrongValue(o)
}

// end is the latest time at which o may have taken effect. An unknown one may do so at any
// time.
func (o *Op) end() time.Duration {
	if o.Outcome == Unknown {
		return math.MaxInt64
	}
	return o.Return
}

func conflict(a, b *Op) bool { return a.Token != b.Token && !(a.Shared && b.Shared) }

// before reports whether a took effect before b, if both were applied.
func before(a, b *Op) bool {
	return a.end() < b.Call || conflict(a, b) && a.Token < b.Token
}

// stale returns a violation if o was admitted although a later holder that it conflicts with had been
// admitted before o was called.
func (l *log) stale(o *Op) *Violation {
	for _, p := range l.ops {
		if p.Outcome == Applied && p.Return < o.Call && p.Token > o.Token && conflict(p, o) {
			return &Violation{"a stale token was admitted", *o, p}
		}
	}
	return nil
}

// needless returns a violation if o was refused although nobody that it conflicts with, and with a
// greater token, had come before. One that was refused itself counts, because it may have been admitted
// at one place on its way, and have met a still greater token at the next.
func (l *log) needless(o *Op) *Violation {
	if o.Highest < o.Token || o.Highest == o.Token && !o.Shared {
		return &Violation{Rule: "refused, and the refusal names no greater token", Op: *o}
	}
	for _, p := range l.ops {
		if p.Outcome != NotApplied && p.Call < o.Return && refuses(p, o) {
			return nil
		}
	}
	return &Violation{Rule: "refused, and no greater token was there", Op: *o}
}

// refuses reports whether o is refused after p was admitted. A shared token is refused after an
// exclusive one that is equal, too.
func refuses(p, o *Op) bool {
	if o.Shared {
		return !p.Shared && p.Token >= o.Token
	}
	return p.Token > o.Token
}

// wrongValue returns a violation if the read r returned a value that it cannot have found.
func (l *log) wrongValue(r *Op) *Violation {
	w := l.wrote[r.Value]
	switch {
	case r.Value == "":
	case w == nil || w.Call > r.Return:
		return &Violation{Rule: "a value was read that nobody had written", Op: *r, Against: w}
	case w.Outcome == Refused || w.Outcome == NotApplied:
		return &Violation{"a write was refused, and applied", *r, w}
	case l.foresaw(r):
		return &Violation{"a stale read was admitted: it saw a newer holder's write", *r, w}
	}
	for _, p := range l.ops {
		if !l.between(w, p, r) {
			continue
		}
		switch { // r should have found p
		case p.Kind == Read: // so w came again, or for the first time, after p had registered
			return &Violation{"an older holder's write was applied after a newer one had registered", *r, p}
		case p.Return < r.Call:
			return &Violation{"a write was lost", *r, p}
		}
		return &Violation{"an older holder's write was applied, and missed by a newer one: it read before it had registered", *r, p}
	}
	return nil
}

// between reports whether p belongs between w, the write that r read, and r itself. A stale p does
// not count, because it is reported itself.
func (l *log) between(w, p, r *Op) bool {
	switch {
	case p.Outcome != Applied || p == r || p == w || p.Value == r.Value:
		return false
	case p.Call > r.Return || l.foresaw(p):
		return false
	}
	return before(p, r) && (w == nil || before(w, p))
}

// foresaw reports whether p read what was written only after it, as by a newer holder.
func (l *log) foresaw(p *Op) bool {
	w := l.wrote[p.Value]
	return p.Kind == Read && w != nil && before(p, w)
}
