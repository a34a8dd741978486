package shards

import (
	"math/rand/v2"
	"time"
)

// An ActionKind is what a Worker asks for.
type ActionKind uint8

const (
	Enqueue ActionKind = iota // prepare, and queue for the shard; ends with Acquired, or Refused
	Try                       // take the shard if nobody has it or waits; ends likewise
	Quit                      // leave the queue; ends what Enqueue began
	Work                      // call work, which holds the shard; ends with Returned
	Move                      // end work's context: the shard is wanted elsewhere
	Look                      // read whether somebody waits behind the hold; ends with Looked
	Release                   // ends with Released
)

// An Action is one thing to do, about one shard.
type Action struct {
	Kind  ActionKind
	Shard int
}

// phase is how far a worker is with a shard.
type phase uint8

const (
	queued    phase = iota + 1 // Enqueue or Try is under way
	quitting                   // and is to end
	working                    // held, and work runs
	moving                     // held, and work is to return
	looking                    // held, and work has returned
	releasing                  // work has returned, and the hold ends
	stuck                      // not held any more, and work or Prepare has not returned
)

// task is what a worker does about one shard.
type task struct {
	phase     phase
	preparing bool // queued: it has no key yet
	try       bool // queued: by Try
	forced    bool // moving: it is released whether somebody waits or not
	waits     bool // held: somebody waits behind it
	since     time.Time
	behind    time.Time // queued: since when it has waited behind others, as Next saw it
}

// bar keeps a worker from a shard for a while that grows from one time to the next.
type bar struct {
	until time.Time
	wait  time.Duration
}

// The bounds of a bar, and how long work has to run for the next one to be the shortest again. The
// shortest outlasts the planner's wait of a second, so that the shard goes to another worker first.
const (
	minBar   = 2 * time.Second
	maxBar   = time.Minute
	forgiven = time.Minute
)

// quiet is how long after its wish a worker says nothing of what it prepares for. Then it says so,
// in time before a planner counts it as full: after a TTL, and the planner's may be the shortest
// that there is, lease.MinTTL.
const quiet = 1500 * time.Millisecond

// A Worker decides what one worker does: what it queues for, what it gives up, and when (rules
// SH4 to SH6 and SH8). Whoever runs it reports what has happened, and does what Next returns.
type Worker struct {
	N      int
	Self   Member // Weight and Value; the rest is filled in by Member
	TTL    time.Duration
	Settle time.Duration
	Moves  int // how many shards are gained at once, and how many given up; 0: all
	Growth int // how much above its share it takes what has no owner, for each further TTL: 1
	// Shuffle puts n things in random order: rand.Shuffle, unless a test sets another.
	Shuffle func(n int, swap func(i, j int))

	wish     Set
	wishMod  int64
	wished   time.Time // when wish came
	tasks    []*task   // by shard; nil: nothing is done about it
	gaveUp   map[int]int64
	bars     map[int]bar
	leaving  bool
	drained  bool
	leaveBy  time.Time
	out      []Action
	joined   time.Time
	counts   int
	mismatch bool
	empty    Set   // what the last list showed without an owner
	extra    int   // how much above its share it may take
	free     []int // what is to be taken with Try
}

// NewWorker makes a Worker of shards 0 to n-1.
func NewWorker(n int, self Member, ttl, settle time.Duration, moves int) *Worker {
	return &Worker{N: n, Self: self, TTL: ttl, Settle: settle, Moves: moves, Growth: 1, Shuffle: rand.Shuffle,
		tasks: make([]*task, n), gaveUp: map[int]int64{}, bars: map[int]bar{}}
}

// Joined begins a new membership, on a new session. Nothing is held on an earlier one; what was
// prepared for it still is when Prepare has not returned, and cannot be taken until it has.
func (w *Worker) Joined(now time.Time) {
	for _, t := range w.tasks {
		if t != nil && (t.phase == queued || t.phase == quitting) {
			t.phase = stuck
		}
	}
	w.wish, w.wishMod, w.wished = nil, 0, now
	clear(w.gaveUp)
	w.joined, w.counts, w.mismatch, w.empty, w.extra, w.free = now, 0, false, nil, 0, nil
}

// Wished reports the wish, and the modification revision of its key.
func (w *Worker) Wished(now time.Time, wish Set, mod int64) {
	if mod > w.wishMod {
		w.wish, w.wishMod, w.wished = wish, mod, now
	}
}

// Leave begins an orderly leave: it queues for nothing, and gives up what it has to whoever waits,
// or after a TTL and Settle. It must be called no earlier than the candidacy is resigned.
func (w *Worker) Leave(now time.Time) {
	if !w.leaving {
		w.leaving, w.leaveBy = true, now.Add(w.TTL+w.Settle)
	}
}

// Deserted reports that no other worker could take what a leaving one still has.
func (w *Worker) Deserted(now time.Time) {
	if w.leaving {
		w.leaveBy = now
	}
}

// Drain has the worker give up what it has to whoever waits, and queue for nothing, or ends that.
// What it gave up meanwhile was the operator's decision, and not the planner's, who writes no wish
// that says already what it is to say: so the wish counts again.
func (w *Worker) Drain(on bool) {
	if w.drained && !on {
		clear(w.gaveUp)
	}
	w.drained = on
}

// Prepared reports that an Enqueue goes on to queue for the shard.
func (w *Worker) Prepared(i int) {
	if t := w.tasks[i]; t != nil {
		t.preparing = false
	}
}

// Acquired reports that the shard is held.
func (w *Worker) Acquired(now time.Time, i int) {
	w.tasks[i] = &task{phase: working, since: now}
	w.act(Work, i)
}

// Refused reports that an Enqueue or a Try has ended without a hold. failed: it is not to be
// repeated at once.
func (w *Worker) Refused(now time.Time, i int, failed bool) {
	w.tasks[i] = nil
	if failed {
		w.bar(now, i)
	}
}

// Waits reports whether somebody waits behind the hold of a shard that is on offer.
func (w *Worker) Waits(i int, waits bool) {
	if t := w.tasks[i]; t != nil {
		t.waits = waits
	}
}

// Returned reports that work has returned, and returns whether it did so by itself.
func (w *Worker) Returned(now time.Time, i int) (early bool) {
	t := w.tasks[i]
	early = t.phase == working
	if t.phase != working || now.Sub(t.since) >= forgiven {
		delete(w.bars, i)
	}
	switch {
	case t.phase == stuck:
		w.tasks[i] = nil
	case t.phase == working && !w.leaving:
		w.bar(now, i)
		fallthrough
	case t.phase == working || t.forced:
		t.phase = releasing
		w.act(Release, i)
	default:
		t.phase = looking
		w.act(Look, i)
	}
	return early
}

// Looked reports whether somebody waits behind the hold, as a read at revision rev showed.
func (w *Worker) Looked(now time.Time, i int, rev int64, waits bool) {
	t := w.tasks[i]
	t.waits = waits
	if w.offers(i) && (waits || w.due(now)) {
		t.phase = releasing
		w.gaveUp[i] = rev
		w.act(Release, i)
		return
	}
	t.phase, t.since = working, now
	w.act(Work, i)
}

// Released reports the end of a Release.
func (w *Worker) Released(i int) { w.tasks[i] = nil }

// Lost reports that a hold was lost, and whether its work runs. A work that runs is to return,
// and its end is reported by Returned; until then the shard cannot be taken.
func (w *Worker) Lost(i int, runs bool) {
	if runs {
		w.tasks[i].phase = stuck
	} else {
		w.tasks[i] = nil
	}
}

// bar keeps the worker from shard i.
func (w *Worker) bar(now time.Time, i int) {
	b := w.bars[i]
	b.wait = min(max(2*b.wait, minBar), maxBar)
	b.until = now.Add(b.wait)
	w.bars[i] = b
}

func (w *Worker) act(k ActionKind, i int) { w.out = append(w.out, Action{k, i}) }

// barred reports whether the worker cannot take shard i now.
func (w *Worker) barred(now time.Time, i int) bool { return now.Before(w.bars[i].until) }

// offers reports whether shard i goes to whoever waits for it.
func (w *Worker) offers(i int) bool { return w.leaving || w.drained || !w.wish.Has(i) }

// due reports whether what it still holds is released, whether somebody waits or not.
func (w *Worker) due(now time.Time) bool { return w.leaving && !now.Before(w.leaveBy) }

// wants reports whether the wish for shard i is to be obeyed: it was not given up since that was
// written.
func (w *Worker) wants(now time.Time, i int) bool {
	return !w.leaving && !w.drained && i < w.N && w.wishMod > w.gaveUp[i] && !w.barred(now, i)
}

// listEach is how many counts of the queues there are from one list of their keys to the next.
const listEach = 8

// Counted reports how many queue keys there are, once a TTL, and returns whether they are to be
// listed (rule SH6).
func (w *Worker) Counted(count int) (list bool) {
	w.counts++
	twice := w.mismatch && count != w.N
	w.mismatch = count != w.N
	return twice || w.counts%listEach == 0 || w.empty.Len() > 0
}

// Listed reports which shards have no queue key at all, and the worker's share, rounded up. What
// had none at the list before either is taken with Try, by Next: up to the share, and above that one
// more for each further TTL for which something stays without.
func (w *Worker) Listed(now time.Time, empty Set, share int) {
	before := w.empty
	w.empty, w.free = empty, nil
	var free []int
	for i := range empty.All() {
		if i < w.N && before.Has(i) && w.tasks[i] == nil && !w.barred(now, i) {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		w.extra = 0
		return
	}
	if w.leaving || share <= 0 || now.Sub(w.joined) < max(2*w.TTL, w.Settle+w.TTL) {
		return
	}
	room := share + w.extra
	w.extra += w.Growth
	for _, t := range w.tasks {
		if t != nil {
			room--
		}
	}
	w.Shuffle(len(free), func(a, b int) { free[a], free[b] = free[b], free[a] })
	w.free = free[:max(min(room, len(free)), 0)]
}
