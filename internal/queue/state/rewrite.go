package state

import (
	"bytes"
	"slices"
)

// doubt holds the values that may have been written to its key, or may be later.
type doubt struct {
	values  [][]byte // sent with a comparison to Mod, and not known to be applied or not
	current []byte   // the value of the call under way
	calling bool     // a call is under way
	fresh   bool     // its value was not in doubt when it was sent last
	done    bool     // its value was applied
	reading bool     // a background read is under way
	lost    int      // how many answers of the call under way were lost
}

// maxLost is how many lost answers of one call's write end the call. Its outcome is then reported
// as unknown.
const maxLost = 3

func (d *doubt) has(value []byte) bool {
	return slices.ContainsFunc(d.values, func(v []byte) bool { return bytes.Equal(v, value) })
}

// landed reports whether value, which was read from its key, is in doubt, and records whether it is
// the call's.
func (d *doubt) landed(value []byte) bool {
	if !d.has(value) {
		return false
	}
	d.done = d.done || d.calling && bytes.Equal(value, d.current)
	return true
}

// clear drops all values: the modification revision has moved, and each value's write compares
// the old one.
func (d *doubt) clear() { d.values = nil }

// beginRead reports whether to begin a background read. A call under way reads by itself.
func (d *doubt) beginRead() bool {
	if d.calling || d.reading {
		return false
	}
	d.reading = true
	return true
}

// ReadEnded says that the background read has ended.
type ReadEnded struct{}

func (ReadEnded) apply(a *Machine) Effects {
	a.doubt.reading = false
	return Effects{}
}

// Rewriting says that a call begins to put Value on its key. Calls are made one at a time. Verdict
// is Again, or Explain if an earlier value is in doubt, so that the key has to be read first.
type Rewriting struct{ Value []byte }

func (ev Rewriting) apply(a *Machine) Effects {
	a.doubt.current, a.doubt.calling, a.doubt.done, a.doubt.lost = ev.Value, true, false, 0
	switch {
	case a.End != Alive:
		return Effects{Verdict: Lost}
	case len(a.doubt.values) > 0:
		return Effects{Verdict: Explain}
	}
	return Effects{Verdict: Again}
}

// RewriteEnded says that the call has returned.
type RewriteEnded struct{}

func (RewriteEnded) apply(a *Machine) Effects {
	a.doubt.current, a.doubt.calling = nil, false
	return Effects{}
}

// WriteSent says that the call's value is about to be sent. Verdict is Again, and then the put has to
// compare the Mod of the effects, so that each value in doubt was sent with a comparison to the present
// one. It is Finished if an earlier copy was applied meanwhile, and Lost if the acquisition has ended;
// then nothing may be sent.
type WriteSent struct{}

func (WriteSent) apply(a *Machine) Effects {
	d := &a.doubt
	switch {
	case a.End != Alive:
		return Effects{Verdict: Lost}
	case d.done:
		return Effects{Verdict: Finished}
	}
	if d.fresh = !d.has(d.current); d.fresh {
		d.values = append(d.values, d.current)
	}
	return Effects{Verdict: Again, Mod: a.Mod}
}

// WriteAnswered is the result of a write. What an answer, or the read after an unknown outcome,
// shows of its key is reported as another event, before this one.
type WriteAnswered struct {
	Outcome Outcome
	Mod     int64 // its key's modification revision, if the write was applied
	Unread  bool  // its key could not be read after an unknown outcome
	Ended   bool  // sending again is pointless, or the caller no longer waits
}

func (ev WriteAnswered) apply(a *Machine) Effects {
	d := &a.doubt
	switch {
	case ev.Outcome == Applied:
		d.done = true
		if ev.Mod > a.Mod {
			a.Mod = ev.Mod
			d.clear()
		}
	case ev.Outcome == Unknown:
		d.lost++
	case ev.Outcome == NotApplied && d.fresh:
		d.drop()
	}
	return Effects{Verdict: a.afterWrite(ev)}
}

// afterWrite is the next step after a write.
func (a *Machine) afterWrite(ev WriteAnswered) Verdict {
	d := &a.doubt
	switch {
	case a.End != Alive:
		return Lost
	case d.done:
		return Finished
	case ev.Outcome == NotApplied && d.has(d.current):
		return Doubt // an earlier copy may still be applied
	case ev.Outcome == NotApplied:
		return Stop
	case d.lost > 0 && (d.lost >= maxLost || ev.Ended || ev.Unread):
		return Doubt
	}
	return Again
}

// drop removes the call's value, whose only copy was not applied and never will be.
func (d *doubt) drop() {
	d.values = slices.DeleteFunc(d.values, func(v []byte) bool { return bytes.Equal(v, d.current) })
}
