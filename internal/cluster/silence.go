package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// This file replaces a mute line; see guarantee 7 of the package. To examine a silent line, a health
// call is sent on it, and on those of up to two other members. If the line is still silent after as
// long again, a spare line is opened. Each member is examined separately.
//
// A line that delivers may still have a try that gets no answer (guarantee 8). So the member is asked
// for its leader meanwhile.

const (
	// patience is the least time that a line may be silent before it is examined.
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

// patience is how long the line may be silent.
func (m *Member) patience() time.Duration { return max(patience, 3*time.Duration(m.trip.Load())) }

// watch begins to watch l until something was read on it.
func (l *line) watch() {
	l.m.c.Go(func() { // ends when something was read on l, or with l
		w := lineWatch{l: l, seen: l.heard()}
		defer w.heard()
		for l.m.wait(l.m.patience()/steps, l.life.Done(), nil) && !w.step() {
		}
	})
}

// lineWatch is the watching of a line.
type lineWatch struct {
	l      *line
	seen   heard
	silent int   // for how many steps
	x      *exam // nil while the line is not examined
}

// step processes a step that has passed, and reports whether it was the last.
func (w *lineWatch) step() bool {
	l, m := w.l, w.l.m
	l.askTerm()
	if m.patience() > patience && m.due(&m.tripAt, tripEvery) { // the member may have become near
		m.measure(l)
	}
	now, asked := l.heard(), l.asked.Load()
	life := now.lifeSince(w.seen)
	w.seen = now
	if !asked || life {
		w.heard()
		return !l.busy() && l.unwatch()
	}
	w.silent++
	switch {
	case w.silent == steps && l.open.Load() == 0: // what was sent was an acknowledgement
		l.asked.Store(false)
		l.due.Store(false)
		if l.open.Load() > 0 { // a call has begun meanwhile, and its write may be the one that was just cleared
			l.due.Store(true)
			l.asked.Store(true)
		}
		w.silent = 0
		return l.unwatch()
	case w.silent == steps:
		l.silent.Store(true)
		w.x = l.examine()
	}
	return w.silent >= 2*steps && w.x.doubt()
}

// heard ends the examination of the line.
func (w *lineWatch) heard() {
	w.silent = 0
	if w.x != nil {
		w.l.silent.Store(false)
		w.x.end()
		w.x = nil
	}
}

// unwatch ends the watching of l, and reports whether it did. It does not if there is something to
// watch.
func (l *line) unwatch() bool {
	l.watched.Store(false)
	return !l.busy() || !l.watched.CompareAndSwap(false, true)
}

// askTerm asks the member for its raft term if a try has been under way for long. If the member knows
// its leader, askTerm gives up the tries that were sent in an earlier raft term, because the old leader
// may have lost them, and then they would get no answer.
func (l *line) askTerm() {
	m := l.m
	every := max(overdue, m.patience())
	if !l.any(func(t *try) bool { return time.Since(t.began) > overdue }) || !m.due(&m.termAt, every) {
		return
	}
	m.c.Go(func() { // ends within every
		ctx, cancel := context.WithTimeout(m.c.life, every)
		defer cancel()
		resp, err := m.c.status(ctx, m, m.c.creds.any(m))
		if err != nil || resp.Leader == 0 || m.c.Check(m, resp.Header, 0, false) != nil {
			return
		}
		l.giveUp(&errElected, func(t *try) bool { return t.term != 0 && t.term < resp.Header.RaftTerm })
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

// exam is the examination of a silent line.
type exam struct {
	l      *line
	ctx    context.Context
	cancel context.CancelFunc
	others atomic.Bool // another member answered
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
	if x.others.Load() {
		m.c.Failed(m, errMute)
		x.l.giveUp(&errMute, everyTry)
	}
	if m.mayOpen() {
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

// mayOpen reports whether a spare may be opened now. If so, no other may be opened for a while.
func (m *Member) mayOpen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Before(m.spareAt) {
		return false
	}
	m.spareAt = now.Add(max(minSwap, 2*m.patience())) // two for TLS, one for TCP, one for the call, and as many again
	return true
}

// newSpare returns a line that is not watched, or nil if none can be made.
func (m *Member) newSpare() *line {
	l, err := m.newLine()
	if err != nil {
		return nil
	}
	l.watched.Store(true)
	return l
}

// swap replaces l by spare, and closes l at once. The tries on l have an unknown outcome if they were
// sent, and its streams are opened again.
func (m *Member) swap(l, spare *line, why string) {
	m.mu.Lock()
	now := time.Now()
	if now.Sub(m.swapped) > 2*maxSwap {
		m.gap = minSwap
	}
	m.swapped, m.spareAt, m.gap = now, now.Add(m.gap), min(2*m.gap, maxSwap)
	if m.closed || !m.line.CompareAndSwap(l, spare) {
		m.mu.Unlock()
		spare.close()
		return
	}
	m.mu.Unlock()
	if !spare.unwatch() { // the spare was in use already
		spare.watch()
	}
	m.c.log.Warn("etcd connection replaced: "+why, "endpoint", m.Endpoint())
	l.giveUp(&errReplaced, everyTry)
	if w := l.wire.Load(); w != nil {
		_ = w.Conn.Close() // without a farewell, which a mute connection might block
	}
	l.close()
}

// move looks for another address of the member's name, because the one in use answers that it
// cannot serve.
func (m *Member) move() {
	if !m.addresses.several() || !m.mayOpen() {
		return
	}
	l := m.line.Load()
	l.blame()
	spare := m.newSpare()
	if spare == nil {
		return
	}
	asks := m.c.Go(func() { // ends within probeTotal
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(m.c.life, m.c.creds.any(m).md), probeTotal)
		defer cancel()
		resp, err := etcdapi.Status(ctx, spare.conn, &pb.StatusRequest{})
		if err != nil && !IsTokenRefusal(err) || err == nil && (resp.Leader == 0 || resp.IsLearner) {
			spare.blame()
			spare.close()
			return
		}
		m.swap(l, spare, "its member cannot serve, and that of another address can")
	})
	if !asks {
		spare.close()
	}
}
