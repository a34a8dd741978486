package cluster

import (
	"context"
	"sync/atomic"
)

// exam is the examination of a silent line. A health call is sent on it, and on those of up to two other
// members. If the line is still silent after as long again, a spare line is opened. Each member is examined
// separately.
type exam struct {
	l      *line
	ctx    context.Context
	cancel context.CancelFunc
	others atomic.Bool // another member answered
	late   bool        // it had answered a step before
	spare  *line       // the last that was opened
}

func (x *exam) end() {
	x.cancel()
	if x.spare != nil {
		x.spare.close()
	}
}

// examine sends health calls on l, and to up to two other members.
func (l *line) examine() *exam {
	x := &exam{l: l}
	x.ctx, x.cancel = context.WithCancel(l.m.c.life)
	l.m.due(&l.m.tripAt, 0)
	l.m.measure(l)
	n := 0
	for _, o := range l.m.c.Members() {
		if o == l.m || n == 2 {
			continue
		}
		n++
		other := o.line.Load()
		l.m.c.Go(func() { // ends with x
			if other.health(x.ctx) {
				x.others.Store(true)
			}
		})
	}
	return x
}

// doubt acts on a line that is still silent, and reports whether it replaced the line.
func (x *exam) doubt() bool {
	m := x.l.m
	if spare := x.spare; spare != nil && spare.serves.Load() {
		x.spare = nil
		m.swap(x.l, spare, "it was silent, and a new one answers")
		return true
	}
	if x.late { // a step later, because l may answer in the same instant
		m.c.Failed(m, errMute)
		x.l.awaits.giveUp(&errMute, everyAwait)
	}
	x.late = x.others.Load()
	if w := x.l.wire.Load(); w != nil && !w.closed.Load() && m.mayOpen() { // an attempt to connect tries all addresses itself
		x.l.blame()
		x.open()
	}
	return false
}

// open opens a spare line, in place of one that has not answered.
func (x *exam) open() {
	if x.spare != nil {
		x.spare.blame()
		x.spare.close()
	}
	if x.spare = x.l.m.newSpare(); x.spare == nil {
		return
	}
	spare := x.spare
	x.l.m.c.Go(func() { // ends with x
		if spare.health(x.ctx) {
			spare.serves.Store(true)
		}
	})
}
