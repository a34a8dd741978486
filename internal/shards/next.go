package shards

import (
	"iter"
	"time"
)

// Next returns what to do now. It returns each action once.
func (w *Worker) Next(now time.Time) []Action {
	w.recover(now)
	w.unbar(now)
	gaining, waiting, losing := w.underWay(now)
	w.giveUp(now, losing)
	gaining = w.obey(now, gaining)
	w.try(now, gaining-waiting)
	out := w.out
	w.out = nil
	return out
}

// underWay leaves the queues of shards that are no longer wanted, and counts what is under way: the
// shards that are being gained, those of them that wait behind other workers, whose pace decides how
// long, and the shards that are being given up. What takes longer than a TTL may never end, so it does
// not count any more, and other shards do not wait for it.
func (w *Worker) underWay(now time.Time) (gaining, waiting, losing int) {
	for i := range w.unwanted() {
		w.to(i, quitting)
		w.act(Quit, i)
	}
	if !w.bounded(now) {
		return 0, 0, 0
	}
	for _, p := range underWay {
		for i := range w.each(w.at.in[p]) {
			t := w.tasks[i]
			switch counts := t.lasted(now) < w.TTL; {
			case !counts:
			case t.phase == moving || t.phase == rechecking:
				losing++
			default:
				gaining++
				if t.phase == queued && !t.preparing && !t.try {
					waiting++
				}
			}
		}
	}
	return gaining, waiting, losing
}

// bounded reports whether what is under way bounds what begins.
func (w *Worker) bounded(now time.Time) bool { return w.Moves > 0 && !w.due(now) }

// underWay are the phases that count for Moves.
var underWay = []phase{queued, quitting, moving, rechecking}

// unwanted yields the shards for which the worker should no longer queue.
func (w *Worker) unwanted() iter.Seq[int] {
	if !w.follows() {
		return w.each(w.at.in[queued])
	}
	return w.each(w.at.in[queued], w.wish, w.at.tries)
}

// lasted is how long t has been at its present step, as far as Next observed.
func (t *task) lasted(now time.Time) time.Duration {
	if at := (step{t.phase, t.preparing}); t.at != at {
		t.at, t.from = at, now
	}
	return now.Sub(t.from)
}

// giveUp ends the work of shards that go to other workers. losing is how many are being given up
// already.
func (w *Worker) giveUp(now time.Time, losing int) {
	forced := w.due(now)
	offered := w.at.asked
	if forced {
		offered = w.at.in[working]
	}
	for i := range w.each(offered, w.kept()) {
		if !forced && w.Moves > 0 && losing >= w.Moves {
			return
		}
		w.tasks[i].forced = forced
		w.to(i, moving)
		w.act(Move, i)
		losing++
	}
}

// kept are the shards that the worker does not give up.
func (w *Worker) kept() Set {
	if !w.follows() {
		return nil
	}
	return w.wish
}

// obey queues for the shards in the wish. gaining is how many are being gained already, and obey
// returns how many are afterwards.
func (w *Worker) obey(now time.Time, gaining int) int {
	if !w.follows() {
		return gaining
	}
	for i := range w.each(w.wish, w.at.gaveUp, w.at.barred, w.at.any) {
		if w.Moves > 0 && gaining >= w.Moves {
			break
		}
		w.set(i, &task{phase: queued, preparing: true})
		w.act(Enqueue, i)
		gaining++
	}
	return gaining
}

// try takes shards that have no owner. gaining is how many are being gained already without waiting for
// another worker.
func (w *Worker) try(now time.Time, gaining int) {
	for len(w.free) > 0 && (w.Moves == 0 || gaining < w.Moves) && !w.leaving && !w.drained {
		i := w.free[0]
		w.free = w.free[1:]
		if w.tasks[i] == nil && !w.barred(now, i) {
			w.set(i, &task{phase: queued, try: true})
			w.act(Try, i)
			gaining++
		}
	}
}

// Offered are the held shards that are given up as soon as another worker waits for them. The caller
// has to report Waits for them.
func (w *Worker) Offered() Set { return w.at.in[working].Without(w.kept()) }

// Idle reports whether nothing is held, queued for, or worked on.
func (w *Worker) Idle() bool { return w.at.any.Len() == 0 }

// Wake is when, if nothing else happens, Next or Member have something new at the latest. It is zero if
// they never have.
func (w *Worker) Wake(now time.Time) (wake time.Time) {
	sooner := func(t time.Time) {
		if t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	if len(w.ends) > 0 {
		sooner(w.ends[0].until)
	}
	if w.leaving {
		sooner(w.leaveBy)
	}
	sooner(w.wished.Add(quiet))
	sooner(w.healthWake())
	if w.bounded(now) {
		for _, p := range underWay {
			for i := range w.each(w.at.in[p]) {
				sooner(w.tasks[i].from.Add(w.TTL)) // it does not count any more
			}
		}
	}
	return wake
}

// Member is what the member key should contain now.
func (w *Worker) Member(now time.Time) Member {
	w.unbar(now)
	m := w.Self
	m.Leaving, m.Drained, m.Health = w.leaving, w.drained, w.health.is
	barred, stuck := w.at.barred, w.at.in[stuck]
	m.Cannot = barred.Or(stuck)
	m.Spared = barred.And(w.at.spared).Or(stuck.Without(barred))
	if now.Sub(w.wished) >= quiet && w.follows() {
		m.Coming = w.wish.Without(w.at.gaveUp, w.at.barred, w.at.ready)
	}
	if w.Meter != nil {
		m.Loads = w.Meter.Told(now)
	}
	return m
}
