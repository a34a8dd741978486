package shards

import "time"

// Next returns what to do now. It returns each action once.
func (w *Worker) Next(now time.Time) []Action {
	w.recover(now)
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
	for i, t := range w.tasks {
		if t == nil || t.phase == working || t.phase == releasing || t.phase == stuck {
			continue
		}
		if t.phase == queued && w.unwanted(i, t) {
			t.phase = quitting
			w.act(Quit, i)
		}
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
	return gaining, waiting, losing
}

// unwanted reports whether the worker should no longer queue for shard i.
func (w *Worker) unwanted(i int, t *task) bool {
	return w.leaving || w.drained || !t.try && !w.wish.Has(i)
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
	for i, t := range w.tasks {
		if t == nil || t.phase != working || !w.offers(i) {
			continue
		}
		forced := w.due(now)
		if forced || t.waits && (w.Moves == 0 || losing < w.Moves) {
			t.phase, t.forced = moving, forced
			w.act(Move, i)
			losing++
		}
	}
}

// obey queues for the shards in the wish. gaining is how many are being gained already, and obey
// returns how many are afterwards.
func (w *Worker) obey(now time.Time, gaining int) int {
	for i := range w.wish.All() {
		if w.Moves > 0 && gaining >= w.Moves {
			break
		}
		if w.wants(now, i) && w.tasks[i] == nil {
			w.tasks[i] = &task{phase: queued, preparing: true}
			w.act(Enqueue, i)
			gaining++
		}
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
			w.tasks[i] = &task{phase: queued, try: true}
			w.act(Try, i)
			gaining++
		}
	}
}

// Offered are the held shards that are given up as soon as another worker waits for them. The caller
// has to report Waits for them.
func (w *Worker) Offered() (s Set) {
	for i, t := range w.tasks {
		if t != nil && t.phase == working && w.offers(i) {
			s.Add(i)
		}
	}
	return s
}

// Idle reports whether nothing is held, queued for, or worked on.
func (w *Worker) Idle() bool {
	for _, t := range w.tasks {
		if t != nil {
			return false
		}
	}
	return true
}

// Held are the shards that the worker holds.
func (w *Worker) Held() (s Set) {
	for i, t := range w.tasks {
		if t.held() {
			s.Add(i)
		}
	}
	return s
}

// Wake is when, if nothing else happens, Next or Member have something new at the latest. It is zero if
// they never have.
func (w *Worker) Wake(now time.Time) (wake time.Time) {
	sooner := func(t time.Time) {
		if t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	for _, b := range w.bars {
		sooner(b.until)
	}
	if w.leaving {
		sooner(w.leaveBy)
	}
	sooner(w.wished.Add(quiet))
	sooner(w.healthWake())
	for _, t := range w.tasks {
		if t != nil && w.Moves > 0 {
			sooner(t.from.Add(w.TTL)) // it does not count any more
		}
	}
	return wake
}

// Member is what the member key should contain now.
func (w *Worker) Member(now time.Time) Member {
	m := w.Self
	m.Leaving, m.Drained, m.Health = w.leaving, w.drained, w.health.is
	for i, t := range w.tasks {
		barred, stuck := w.barred(now, i), t != nil && t.phase == stuck
		if barred || stuck {
			m.Cannot.Add(i)
			if !barred || w.bars[i].spared {
				m.Spared.Add(i)
			}
		}
	}
	if now.Sub(w.wished) >= quiet {
		for i := range w.wish.All() {
			if w.wants(now, i) && (w.tasks[i] == nil || w.tasks[i].phase == queued && w.tasks[i].preparing) {
				m.Coming.Add(i)
			}
		}
	}
	return m
}
