package shards

import (
	"math"
	"math/rand/v2"
	"time"
)

// An ActionKind is what a Worker asks its caller to do.
type ActionKind uint8

const (
	Enqueue ActionKind = iota // prepare, and queue for the shard; ends with Acquired, or Refused
	Try                       // take the shard if nobody holds it or waits for it; ends likewise
	Quit                      // leave the queue; ends what Enqueue began
	Work                      // call work, which holds the shard; ends with Returned
	Move                      // end work's context, because another worker gets the shard
	Recheck                   // read whether a successor waits; ends with Rechecked
	Release                   // ends with Released
)

// An Action is one thing to do about one shard.
type Action struct {
	Kind  ActionKind
	Shard int
}

// phase is how far a worker is with a shard.
type phase uint8

const (
	queued     phase = iota + 1 // Enqueue or Try is under way
	quitting                    // Enqueue or Try is under way, and has to end
	working                     // held, and work runs
	moving                      // held, and work has to return
	rechecking                  // held, and work has returned
	releasing                   // work has returned, and the hold ends
	stuck                       // not held any more, and work or Prepare has not returned
)

// task is what a worker does about one shard.
type task struct {
	phase     phase
	preparing bool // only if queued, whether it has no key yet
	try       bool // only if queued, whether by Try
	failed    bool // only if stuck, whether the shard has failed, as its work hangs
	forced    bool // only if moving, whether it is released even if no successor waits
	waits     bool // only if held, whether a successor waits
	since     time.Time
	at        step      // the last that Next observed
	from      time.Time // when Next first observed it
}

// held reports whether the shard is held.
func (t *task) held() bool { return t != nil && t.phase >= working && t.phase <= rechecking }

// step is what a task does.
type step struct {
	phase     phase
	preparing bool
}

// quiet is how long after its wish a worker's member key does not say what it prepares for. Later it
// says so, before a planner counts the worker as full. The planner does that after a TTL, which may be
// as short as lease.MinTTL.
const quiet = 1500 * time.Millisecond

// A Worker decides what one worker queues for, what it gives up, and when (rules SH4 to SH6 and SH8).
// The caller reports what has happened, and does what Next returns.
type Worker struct {
	N      int
	Self   Member // Weight and Value; Member fills in the rest
	TTL    time.Duration
	Settle time.Duration
	Stall  time.Duration // a work that hangs shows it after this; 0 if it never does
	Meter  *Meter        // of the shards' loads; nil if they are not measured
	Moves  int           // how many shards are gained at once, and how many given up; 0 means all
	// Growth is how many more shards above its share it takes with each further TTL, if they have no
	// owner. It is 1, unless a test sets another.
	Growth int
	// Shuffle puts n elements in random order. It is rand.Shuffle, unless a test sets another function.
	Shuffle func(n int, swap func(i, j int))
	// Draw returns a number from 0 to n-1 at random. It is rand.IntN, unless a test sets another function.
	Draw func(n int) int

	wish    Set
	wishMod int64
	wished  time.Time // when wish came
	tasks   []*task   // by shard; nil if nothing is done about it
	at      standing
	looked  int           // how often a loop has looked at a shard
	gaveUp  map[int]int64 // when shards were given up, if that was not before the wish
	bars    map[int]bar
	ends    barEnds
	health  health
	leaving bool
	drained bool
	leaveBy time.Time
	out     []Action
	joined  time.Time
	counts  int
	missing bool  // the last count was too low
	workers int   // how many the last count showed
	vain    int   // how many lists in a row showed shards without an owner of which it could take none
	listAt  int   // the count before which it does not list them again
	poison  Set   // the shards that the planner takes care of, and Listed leaves out
	empty   Set   // the shards without an owner in the last list
	extra   int   // how many shards above its share it may take
	free    []int // the shards to take with Try
}

// NewWorker makes a Worker of shards 0 to n-1.
func NewWorker(n int, self Member, ttl, settle time.Duration, moves int) *Worker {
	return &Worker{N: n, Self: self, TTL: ttl, Settle: settle, Moves: moves, Growth: 1, Shuffle: rand.Shuffle, Draw: rand.IntN,
		tasks: make([]*task, n), gaveUp: map[int]int64{}, bars: map[int]bar{}, health: health{failed: map[int]time.Time{}}}
}

// Joined begins a new membership, on a new session. The worker no longer holds anything on an earlier
// one. A shard for which Prepare was called on the earlier one cannot be taken until Prepare has
// returned.
func (w *Worker) Joined(now time.Time) {
	for _, p := range []phase{queued, quitting} {
		for i := range w.at.in[p].All() {
			w.to(i, stuck)
		}
	}
	w.wish, w.wishMod, w.wished = nil, 0, now
	w.forgive(math.MaxInt64)
	w.joined, w.counts, w.missing, w.empty, w.extra, w.free = now, 0, false, nil, 0, nil
	w.vain, w.listAt = 0, 0
	if w.Meter != nil {
		w.Meter.Reset()
		w.Meter.TTL = w.TTL
	}
}

// Wished sets the wish, and the modification revision of its key.
func (w *Worker) Wished(now time.Time, wish Set, mod int64) {
	if mod > w.wishMod {
		w.wish, w.wishMod, w.wished = wish, mod, now
		w.forgive(mod)
	}
}

// Leave begins an orderly leave. The worker queues for nothing, and gives up each shard as soon as
// another worker waits for it, or after a TTL and Settle. Leave must not be called before the candidacy
// is resigned.
func (w *Worker) Leave(now time.Time) {
	if !w.leaving {
		w.leaving, w.leaveBy = true, now.Add(w.TTL+w.Settle)
	}
}

// Deserted records that no other worker could take what the leaving one still has.
func (w *Worker) Deserted(now time.Time) {
	if w.leaving {
		w.leaveBy = now
	}
}

// Drain has the worker queue for nothing, and give up each shard as soon as another worker waits for
// it, or ends that. When it ends, the wish counts again even for the shards that were given up. Giving
// them up was the operator's decision, not the planner's, and the planner does not write a wish again
// that has not changed.
func (w *Worker) Drain(on bool) {
	if w.drained && !on {
		w.forgive(math.MaxInt64)
		w.vain, w.listAt = 0, 0
	}
	w.drained = on
}

// Prepared records that an Enqueue has prepared, and that its key is in the shard's queue.
func (w *Worker) Prepared(i int) {
	if t := w.tasks[i]; t != nil {
		t.preparing = false
		w.stand(i)
	}
}

// Acquired records that the shard is held.
func (w *Worker) Acquired(now time.Time, i int) {
	w.set(i, &task{})
	w.work(now, i)
}

// Refused records that an Enqueue or a Try has ended without a hold. If failed is true, it must not be
// repeated at once.
func (w *Worker) Refused(now time.Time, i int, failed bool) {
	w.set(i, nil)
	if failed {
		w.failure(now, i, 0)
	}
}

// Hindered records that an Enqueue or a Try has ended without a hold, for a reason that is neither the
// shard's nor the worker's. It must not be repeated at once.
func (w *Worker) Hindered(now time.Time, i int) {
	w.set(i, nil)
	w.bar(now, i, true)
}

// Waits records whether a successor waits for an offered shard.
func (w *Worker) Waits(i int, waits bool) {
	if t := w.tasks[i]; t != nil {
		t.waits = waits
		w.stand(i)
	}
}

// Returned records that work has returned, and reports whether it did so unasked.
func (w *Worker) Returned(now time.Time, i int) (early bool) {
	t := w.tasks[i]
	early = t.phase == working
	if t.phase != working && !t.failed || t.phase == working && now.Sub(t.since) >= forgiven {
		delete(w.bars, i)
		w.at.barred.Remove(i)
	}
	switch {
	case t.phase == stuck:
		w.set(i, nil)
	case t.phase == working && !w.leaving:
		w.failure(now, i, now.Sub(t.since))
		fallthrough
	case t.phase == working || t.forced:
		w.to(i, releasing)
		w.act(Release, i)
	default:
		w.to(i, rechecking)
		w.act(Recheck, i)
	}
	return early
}

// Rechecked records whether a successor waits, as a read at revision rev showed.
func (w *Worker) Rechecked(now time.Time, i int, rev int64, waits bool) {
	w.Waits(i, waits)
	if w.offers(i) && (waits || w.due(now)) {
		w.to(i, releasing)
		w.gaveUp[i] = rev
		w.at.gaveUp.Set(i, rev >= w.wishMod)
		w.act(Release, i)
		return
	}
	w.work(now, i)
}

// Released records the end of a Release.
func (w *Worker) Released(i int) { w.set(i, nil) }

// Lost records that a hold was lost, and whether its work runs. If work runs, its context has to be
// ended, and Returned is called when it has returned. The shard cannot be taken before that.
func (w *Worker) Lost(i int, runs bool) {
	if runs {
		w.to(i, stuck)
	} else {
		w.set(i, nil)
	}
}

// Stalled is Lost for a hold whose work runs and hangs: the shard has failed.
func (w *Worker) Stalled(now time.Time, i int) {
	ran := now.Sub(w.tasks[i].since)
	w.Lost(i, true)
	w.tasks[i].failed = true
	w.failure(now, i, ran)
}

func (w *Worker) act(k ActionKind, i int) { w.out = append(w.out, Action{k, i}) }

// Held are the shards that are held.
func (w *Worker) Held() Set {
	return w.at.in[working].Or(w.at.in[moving]).Or(w.at.in[rechecking])
}

// offers reports whether shard i is given up as soon as another worker waits for it.
func (w *Worker) offers(i int) bool { return w.leaving || w.drained || !w.wish.Has(i) }

// due reports whether what the worker still holds is released even if no successor waits.
func (w *Worker) due(now time.Time) bool { return w.leaving && !now.Before(w.leaveBy) }

// follows reports whether the worker follows its wish: for the shards that it has not given up since the
// wish was written, and can take now.
func (w *Worker) follows() bool { return !w.leaving && !w.drained }

// listEach is how many counts of the queue keys there are from one list of them to the next.
const listEach = 8

// Counted records how many queue keys and workers there are, and which shards are poison, as the planner
// says. It is called once a TTL, and returns whether the keys have to be listed (rule SH6). As long as
// none is known to be missing, all workers together list them about every eighth TTL, or about once a
// TTL while there are more than shards, so that what a fleet reads does not grow with its square.
func (w *Worker) Counted(keys, workers int, poison Set) (list bool) {
	w.counts++
	missing := keys < w.N-poison.Len()
	twice := w.missing && missing
	w.missing, w.poison, w.workers = missing, poison, max(workers, 1)
	turn := w.counts%listEach == 0 || keys > w.N // then one may hide that another is missing
	return (twice || w.empty.Len() > 0) && w.counts >= w.listAt || turn && w.Draw(w.workers) == 0
}

// Listed records which shards have no queue key at all, poison included, and the worker's share, rounded up. Next takes
// those that had none in the previous list either, with Try. It takes as many as fit into the share,
// and one more for each further TTL in which such shards remain.
func (w *Worker) Listed(now time.Time, empty Set, share int) {
	before := w.empty
	empty = empty.Without(w.poison)
	w.empty, w.free = empty, nil
	var free []int
	for i := range empty.All() {
		if i < w.N && before.Has(i) && w.tasks[i] == nil && !w.barred(now, i) {
			free = append(free, i)
		}
	}
	switch {
	case empty.Len() == 0:
		w.vain, w.listAt = 0, 0
	case before.Len() > 0 && (len(free) == 0 || share <= 0):
		w.vain++
		w.listAt = w.counts + min(1<<min(w.vain, 20), w.workers)
	}
	if len(free) == 0 {
		w.extra = 0
		return
	}
	if w.leaving || share <= 0 || now.Sub(w.joined) < max(2*w.TTL, w.Settle+w.TTL) {
		return
	}
	room := share + w.extra - w.at.any.Len()
	w.extra += w.Growth
	w.Shuffle(len(free), func(a, b int) { free[a], free[b] = free[b], free[a] })
	w.free = free[:max(min(room, len(free)), 0)]
	w.vain, w.listAt = 0, 0
}
