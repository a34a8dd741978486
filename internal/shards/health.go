package shards

import "time"

// A worker is sick when it has failed lately with at least sickFrom shards, or with all there are if
// there are fewer, and with more than it works on without a failure.
const (
	sickFrom  = 3
	failedFor = 10 * time.Minute // for how long a failure counts
)

// The bounds of the pause before a trial, which doubles when a trial fails, and of how long the work in
// a trial has to run for the worker to be well.
const (
	minPause  = 10 * time.Second
	maxPause  = 10 * time.Minute
	minTrial  = 10 * time.Second
	maxTrial  = 2 * time.Minute
	trialOver = 1.5 // of the longest run that ended in a failure
)

// health is what a worker knows of its own failures.
type health struct {
	is      Health
	failed  map[int]time.Time // when each shard failed last
	last    time.Time         // the last failure
	longest time.Duration     // the longest run of a work that failed
	pause   time.Duration     // before the trial that comes next, or came last
	since   time.Time         // since when it is as it is
	fresh   []fresh           // the works that have begun since it is not well, the oldest first
}

// fresh is a work that has begun.
type fresh struct {
	shard int
	task  *task
	since time.Time
}

// began records that the work of shard i begins.
func (h *health) began(i int, t *task) {
	if h.is != Well {
		h.fresh = append(h.fresh, fresh{i, t, t.since})
	}
}

// failure records that shard i failed after its work had run for a while, or before it began.
func (w *Worker) failure(now time.Time, i int, ran time.Duration) {
	w.bar(now, i, false)
	h := &w.health
	if h.is == Well && now.Sub(h.last) >= failedFor {
		h.longest, h.pause = 0, 0
	}
	h.failed[i], h.last, h.longest = now, now, max(h.longest, ran)
	switch {
	case h.is == Well && w.mostlyFails(now):
		w.sicken(now, true)
	case h.is == Trial: // with more than one shard it is no trial: its health does not count
		w.sicken(now, w.wish.Len() <= 1)
	}
}

func (w *Worker) sicken(now time.Time, longer bool) {
	h := &w.health
	h.is, h.since = Sick, now
	if longer {
		h.pause = min(max(2*h.pause, minPause), maxPause)
	}
}

// mostlyFails reports whether the worker fails with more shards than it works on.
func (w *Worker) mostlyFails(now time.Time) bool {
	failed, held := w.health.failed, 0
	for p := working; p <= rechecking; p++ {
		held += w.at.in[p].Len()
	}
	if 2*len(failed) <= held {
		return false
	}
	sound := held
	for i, at := range failed {
		if w.looked++; now.Sub(at) >= failedFor {
			delete(failed, i)
		} else if w.tasks[i].held() {
			sound--
		}
	}
	return len(failed) >= min(sickFrom, w.N) && len(failed) > sound
}

// recover begins the trial of a sick worker, and makes it well when work has run for long enough.
func (w *Worker) recover(now time.Time) {
	h := &w.health
	if h.is == Sick && !now.Before(h.since.Add(h.pause)) {
		h.is, h.since = Trial, now
	}
	if at := w.proven(); !at.IsZero() && !now.Before(at) {
		h.is, h.since = Well, now
		clear(h.failed)
		h.fresh = nil
		w.vain, w.listAt = 0, 0
	}
}

// proven is when a work that began after the last failure will have run for long enough, or zero if
// there is none, or no need.
func (w *Worker) proven() (at time.Time) {
	h := &w.health
	if h.is == Well {
		return at
	}
	for len(h.fresh) > 0 {
		first := h.fresh[0]
		if t := w.tasks[first.shard]; t == first.task && t.held() && t.since.Equal(first.since) && !t.since.Before(h.last) {
			at = first.since
			break
		}
		h.fresh = h.fresh[1:]
	}
	if at.IsZero() {
		return at
	}
	return at.Add(min(max(time.Duration(trialOver*float64(h.longest)), minTrial), max(maxTrial, w.Stall+w.Stall/2)))
}

// healthWake is when recover has something to do, or zero.
func (w *Worker) healthWake() time.Time {
	if w.health.is == Sick {
		return w.health.since.Add(w.health.pause)
	}
	return w.proven()
}
