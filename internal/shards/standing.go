package shards

import (
	"container/heap"
	"iter"
	"time"
)

// standing is what a Worker's decisions depend on, as sets of shards. A worker may have a hundred thousand
// shards, and decides at each event, so a decision looks only at the shards that it is about.
type standing struct {
	any    Set            // with a task
	in     [stuck + 1]Set // with a task in that phase
	ready  Set            // with a task, and not preparing
	tries  Set            // queued by Try
	asked  Set            // working, and a successor waits
	gaveUp Set            // given up since the wish was written
	barred Set            // barred when unbar was called last
	spared Set            // of those that are barred, the shards that have not failed
}

// set replaces what is done about shard i.
func (w *Worker) set(i int, t *task) {
	w.tasks[i] = t
	w.stand(i)
}

// to is set for another phase.
func (w *Worker) to(i int, p phase) {
	w.tasks[i].phase = p
	w.stand(i)
}

// work is to for the phase in which work runs.
func (w *Worker) work(now time.Time, i int) {
	t := w.tasks[i]
	t.since = now
	w.to(i, working)
	w.health.began(i, t)
	w.act(Work, i)
}

// stand records what is done about shard i.
func (w *Worker) stand(i int) {
	var t task // of phase 0, if there is none
	if w.tasks[i] != nil {
		t = *w.tasks[i]
	}
	s := &w.at
	s.any.Set(i, t.phase != 0)
	for p := range s.in {
		s.in[p].Set(i, phase(p) == t.phase && p != 0)
	}
	s.ready.Set(i, t.phase > queued || t.phase == queued && !t.preparing)
	s.tries.Set(i, t.phase == queued && t.try)
	s.asked.Set(i, t.phase == working && t.waits)
}

// each yields the shards in s that are in none of the others. All loops over shards use it, and it counts
// what they look at.
func (w *Worker) each(s Set, others ...Set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.But(others...) {
			w.looked++
			if !yield(i) {
				return
			}
		}
	}
}

// forgive forgets what was given up before revision rev.
func (w *Worker) forgive(rev int64) {
	for i, gaveUp := range w.gaveUp {
		if gaveUp < rev {
			delete(w.gaveUp, i)
			w.at.gaveUp.Remove(i)
		}
	}
}

// A bar keeps a worker from a shard for a while, which grows from one time to the next.
type bar struct {
	until time.Time
	wait  time.Duration
}

// The bounds of a bar, and how long work has to run for the next bar to be the shortest again. The
// shortest is longer than the planner's wait of a second, so that the shard goes to another worker
// first.
const (
	minBar   = 2 * time.Second
	maxBar   = time.Minute
	forgiven = time.Minute
)

// bar keeps the worker from shard i. spared says that i has not failed.
func (w *Worker) bar(now time.Time, i int, spared bool) {
	b := w.bars[i]
	b.wait = min(max(2*b.wait, minBar), maxBar)
	b.until = now.Add(b.wait)
	w.bars[i] = b
	w.at.barred.Add(i)
	w.at.spared.Set(i, spared)
	heap.Push(&w.ends, barEnd{b.until, i})
}

// barred reports whether the worker cannot take shard i now.
func (w *Worker) barred(now time.Time, i int) bool { return now.Before(w.bars[i].until) }

// unbar ends the bars that are over.
func (w *Worker) unbar(now time.Time) {
	for len(w.ends) > 0 && !now.Before(w.ends[0].until) {
		if i := heap.Pop(&w.ends).(barEnd).shard; !w.barred(now, i) {
			w.at.barred.Remove(i)
		}
	}
}

// barEnd is when a bar ends, unless there was a later one, or none is left.
type barEnd struct {
	until time.Time
	shard int
}

// barEnds is a heap of them, the first at the top.
type barEnds []barEnd

func (b barEnds) Len() int           { return len(b) }
func (b barEnds) Less(i, j int) bool { return b[i].until.Before(b[j].until) }
func (b barEnds) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *barEnds) Push(e any)        { *b = append(*b, e.(barEnd)) }
func (b *barEnds) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
