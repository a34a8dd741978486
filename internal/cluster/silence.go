package cluster

import (
	"context"
	"time"
)

// This file notices that a line is silent: something was sent on it after what was last answered, and for a while
// no answer has come, nor a part of one; see guarantee 7 of the package. exam.go then examines it, and spare.go replaces it.
//
// A line that delivers may still have a try that gets no answer (guarantee 8). So the member is asked
// for its leader meanwhile.

const (
	// patience is the least time that a line may be silent before it is examined, and that an address may
	// be before the next one of its name is tried too.
	patience = 200 * time.Millisecond
	// steps is how many steps patience consists of. A process that was itself stopped counts one step
	// for all of that time, so it blames no member.
	steps = 4
	// overdue is how long a try may be under way before its member is asked whether another leader was
	// elected meanwhile, and the least time between two such questions.
	overdue = 500 * time.Millisecond
	// tripEvery is how often the round trip of a far member that is in use is measured.
	tripEvery = 5 * time.Second
	// Swaps of a member's line are minSwap to maxSwap apart.
	minSwap = 2 * time.Second
	maxSwap = 30 * time.Second
)

// patience is how long the line, or an address of the member's name, may be silent.
func (m *Member) patience() time.Duration { return max(patience, 3*time.Duration(m.trip.Load())) }

// watch watches l until no answer is due on it.
func (l *line) watch() {
	l.m.c.Go(func() { // ends when no answer is due on l, or with l
		w := lineWatch{l: l}
		w.seen, _, _ = l.awaits.state()
		w.arriving()
		defer w.heard()
		for l.m.wait(l.m.patience()/steps, l.life.Done(), nil) && !w.step() {
		}
	})
}

// lineWatch is the watching of a line.
type lineWatch struct {
	l      *line
	seen   int   // awaits.heard, at the last step
	got    int64 // wire.got, then
	events int64 // line.events, then
	silent int   // for how many steps, in which something awaited an answer
	idle   int   // for how many steps, since then, nothing has
	x      *exam // nil while the line is not examined
}

// step processes a step that has passed, and reports whether it was the last.
func (w *lineWatch) step() bool {
	l, m := w.l, w.l.m
	l.askTerm()
	if m.patience() > patience && m.due(&m.tripAt, tripEvery) { // the member may have become near
		m.measure(l)
	}
	heard, due, open := l.awaits.state()
	arriving := w.arriving()
	switch {
	case !due || heard != w.seen:
		w.seen = heard
		w.heard()
		return l.awaits.unwatch(false)
	case !open: // callers have stopped waiting; perhaps another one begins
		if w.idle++; w.idle < steps {
			return false
		}
		w.heard()
		return l.awaits.unwatch(true)
	case arriving:
		w.heard()
		return false
	}
	w.idle = 0
	if w.silent++; w.silent == steps {
		l.silent.Store(true)
		w.x = l.examine()
	}
	return w.silent >= 2*steps && w.x.doubt()
}

// arriving reports whether a part of an answer, or of a handshake, has been read since the last step. A large
// answer may take long over a slow network. What was read beside events may have been nothing else.
func (w *lineWatch) arriving() bool {
	got, events := int64(0), w.l.events.Load()
	if wire := w.l.wire.Load(); wire != nil {
		got = wire.got.Load()
	}
	any := got != w.got && events == w.events
	w.got, w.events = got, events
	return any
}

// heard ends the examination of the line.
func (w *lineWatch) heard() {
	w.silent, w.idle = 0, 0
	if w.x != nil {
		w.l.silent.Store(false)
		w.x.end()
		w.x = nil
	}
}

// askTerm asks the member for its raft term if a try has been under way for long. If the member knows
// its leader, askTerm gives up the tries that were sent in an earlier raft term, because the old leader
// may have lost them, and then they would get no answer.
func (l *line) askTerm() {
	m := l.m
	every := max(overdue, m.patience())
	if !l.awaits.any(func(a *await) bool { return a.term != 0 && time.Since(a.began) > overdue }) || !m.due(&m.termAt, every) {
		return
	}
	m.c.Go(func() { // ends within every
		ctx, cancel := context.WithTimeout(m.c.life, every)
		defer cancel()
		resp, err := m.c.status(ctx, m, m.c.creds.any(m))
		if err != nil || resp.Leader == 0 || m.c.Check(m, resp.Header, 0, false) != nil {
			return
		}
		l.awaits.giveUp(&errElected, func(a *await) bool { return a.term != 0 && a.term < resp.Header.RaftTerm })
	})
}

// due reports whether at least every has passed since *last, and if so sets *last to now. It locks m.mu
// because the watching of a line that was replaced may overlap for a moment with that of the new line.
func (m *Member) due(last *time.Time, every time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(*last) < every {
		return false
	}
	*last = now
	return true
}

// measure makes a health call on l to measure the member's round trip. The result is at most the steps
// that passed meanwhile, so that it does not include time in which this process was stopped.
func (m *Member) measure(l *line) {
	m.c.Go(func() { // ends within probeTotal
		ctx, cancel := context.WithTimeout(m.c.life, probeTotal)
		defer cancel()
		ok, answered := false, make(chan struct{})
		sent, passed := time.Now(), patience/steps
		go func() { // ends with ctx; waited for below
			defer close(answered)
			ok = l.health(ctx)
		}()
		for m.wait(patience/steps, ctx.Done(), answered) {
			passed += patience / steps
		}
		if <-answered; ok {
			m.trip.Store(int64(min(time.Since(sent), passed)))
		}
	})
}
