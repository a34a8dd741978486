// Package shards is a model of how the shards of a name are shared out: an etcd of a few maps,
// workers with views that lag, and an adversary. The code of internal/shards itself decides. Here is
// what surrounds it, with random delays for everything: requests, answers, watches, copies that
// arrive late, work that returns late or by itself, sessions that end.
//
// It checks at every step that
//
//  1. a worker calls work for a shard only while it believes to hold the shard's lock, and never
//     while an earlier work that it called for the shard still runs;
//  2. it releases no shard while its work on it runs.
//
// That a shard has one owner follows from its queue, and is not checked here. After the adversary
// has stopped, it checks that each shard has an owner, that loads are within one of the shares, and
// that nothing is written any more.
//
// Rules switches off single rules of the design. Each of them is needed, because without it a
// scenario fails.
package shards

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
)

// Rules are the parts of the design that can be left out.
type Rules struct {
	GainersOnly  bool // a member that only loses is not notified
	BlindWrite   bool // a wish is put without a comparison of its key
	ForgetWishes bool // a planner knows only the wishes that it has written itself
	NoBound      bool // a plan waits for as long as there are changes
	KeepPlanning bool // a worker that leaves stops to plan, and does not resign
	NoLook       bool // a worker gives up without another read
	NoGrowth     bool // what has no owner is taken only up to the worker's share
	MembersOnly  bool // a plan is made only when the members change
	AllWell      bool // no worker counts as sick
	NoPlaces     bool // a worker that comes back is one like any other
	NoPoison     bool // no shard counts as one that fails wherever it is
	AnnounceLate bool // a key is put on a carrier that the member key does not name yet
	KeepCarriers bool // the end of a member's session leaves its carriers
}

// The times of the model.
const (
	ttl    = 10 * time.Second
	settle = time.Second
)

// Config is one run.
type Config struct {
	Seed  uint64
	Rules Rules
	N     int           // shards
	Lag   time.Duration // the longest delay of a request, an answer or an event
	Moves int
	// Loads has the workers measure loads: any at all, until the run is quiet.
	Loads bool
	// PerLease is how many shards have their keys on one lease at most; 0 means all.
	PerLease int
}

// event is something that happens at a time.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// item is a stored key.
type item struct {
	value       []byte
	create, mod int64
	lease       int64
}

// Sim is one run under way.
type Sim struct {
	Config
	*rand.Rand
	keys    keys.Shards
	now     time.Duration
	agenda  agenda
	seq     int
	rev     int64
	store   map[string]item
	watches []func(shards.Event)
	workers []*worker
	leases  int64
	broken  []string
	log     []string

	// what is measured
	moves     []int           // by shard, how often it was granted to another worker than the last
	last      []int64         // the last owner of each shard, by lease
	since     []time.Duration // since when it has no owner; -1 if it has one
	Ownerless time.Duration   // the longest time for which a shard that had an owner had none
	quiet     bool            // no adversary any more
	Blocked   bool            // nobody can become planner
	Copies    time.Duration   // every write of a wish is applied once more, that much later, unless 0
}

// New begins a run.
func New(c Config) *Sim {
	k, err := keys.NewShards("", "name")
	if err != nil {
		panic(err)
	}
	s := &Sim{Config: c, Rand: rand.New(rand.NewPCG(c.Seed, 1)), keys: k, store: map[string]item{},
		moves: make([]int, c.N), last: make([]int64, c.N), since: slices.Repeat([]time.Duration{-1}, c.N)}
	s.elect()
	return s
}

// after does something later.
func (s *Sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.agenda, event{s.now + d, s.seq, do})
}

// later does something after a random delay.
func (s *Sim) later(do func()) { s.after(s.delay(), do) }

// delay is mostly short.
func (s *Sim) delay() time.Duration {
	if s.IntN(8) > 0 {
		return rand0(s, 5*time.Millisecond)
	}
	return rand0(s, s.Lag)
}

func rand0(s *Sim, d time.Duration) time.Duration { return time.Duration(s.Int64N(int64(d) + 1)) }

// Run runs for d.
func (s *Sim) Run(d time.Duration) {
	end := s.now + d
	for len(s.agenda) > 0 && s.agenda[0].at <= end && len(s.broken) == 0 {
		e := heap.Pop(&s.agenda).(event)
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, end)
	s.measure()
}

func (s *Sim) time() time.Time { return time.Unix(1_000_000, 0).Add(s.now) }

func (s *Sim) tell(format string, args ...any) {
	if len(s.log) > 4000 {
		s.log = s.log[200:]
	}
	s.log = append(s.log, fmt.Sprintf("%v "+format, append([]any{s.now}, args...)...))
}

func (s *Sim) fail(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// Broken is what was found wrong, with the last steps, or "".
func (s *Sim) Broken() string {
	if len(s.broken) == 0 {
		return ""
	}
	return strings.Join(s.broken, "\n") + "\n" + strings.Join(s.log[max(len(s.log)-60, 0):], "\n")
}

// put writes a key at a new revision.
func (s *Sim) put(key string, value []byte, lease int64) int64 {
	s.rev++
	old, there := s.store[key]
	it := item{value, s.rev, s.rev, lease}
	if there {
		it.create = old.create
	}
	s.store[key] = it
	s.notify(shards.Event{Key: key, Value: value, Create: it.create, Mod: it.mod})
	return s.rev
}

// remove deletes keys at one revision.
func (s *Sim) remove(all ...string) {
	s.rev++
	for _, key := range all {
		if _, there := s.store[key]; there {
			delete(s.store, key)
			s.notify(shards.Event{Key: key, Deleted: true, Mod: s.rev})
		}
	}
}

func (s *Sim) notify(e shards.Event) {
	for _, w := range s.watches {
		w(e)
	}
	for _, w := range s.workers {
		w.changed(e)
	}
	s.measure()
}

// queue is the keys of a queue, in order.
func (s *Sim) queue(prefix string) (all []string) {
	for key := range s.store {
		if strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return int(s.store[a].create - s.store[b].create) })
	return all
}

// measure records who owns what: the first of each queue.
func (s *Sim) measure() {
	first := make(map[int]string)
	for key := range s.store {
		if k := s.keys.Parse(key); k.Kind == keys.ShardsQueue {
			if old, there := first[k.Shard]; !there || s.store[key].create < s.store[old].create {
				first[k.Shard] = key
			}
		}
	}
	for i := range s.N {
		key, owned := first[i]
		lease := s.store[key].lease
		switch {
		case !owned && s.last[i] != 0 && s.since[i] < 0:
			s.since[i] = s.now
		case owned && s.last[i] != lease:
			if s.last[i] != 0 {
				s.moves[i]++
				s.tell("shard %d moves from %x to %x", i, s.last[i], lease)
			}
			s.last[i] = lease
			fallthrough
		case owned:
			if s.since[i] >= 0 {
				s.Ownerless = max(s.Ownerless, s.now-s.since[i])
				s.since[i] = -1
			}
		}
		if s.since[i] >= 0 {
			s.Ownerless = max(s.Ownerless, s.now-s.since[i])
		}
	}
}

// Settled reports what is wrong if nothing has happened for long enough. It returns "" if every
// shard has an owner, and numbers are within one of the shares, unless workers measure loads.
func (s *Sim) Settled() string {
	load, weights := map[*worker]int{}, 0
	for _, w := range s.workers {
		if w.eligible() {
			load[w] = 0
			weights += max(w.Self.Weight, 0)
		}
	}
	for i := range s.N {
		q := s.queue(s.keys.Queue(i).Prefix)
		if len(q) == 0 {
			return fmt.Sprintf("shard %d has no owner", i)
		}
		w := s.worker(s.store[q[0]].lease)
		if w == nil || !w.eligible() || w.holds[i] == nil || !w.running[i] {
			return fmt.Sprintf("shard %d is held by %x, which does not work on it: %q", i, s.store[q[0]].lease, q)
		}
		if len(q) > 1 {
			return fmt.Sprintf("somebody waits for shard %d: %q", i, q)
		}
		load[w]++
	}
	for w, l := range load {
		if s.Loads {
			break // numbers are not even
		}
		share := float64(s.N*max(w.Self.Weight, 0)) / float64(weights)
		if float64(l) >= share+1 || float64(l) <= share-1 {
			return fmt.Sprintf("%x has %d shards, and a share of %.2f", w.lease, l, share)
		}
	}
	return ""
}

// worker is the worker with a lease, or with a carrier on it.
func (s *Sim) worker(lease int64) *worker {
	for _, w := range s.workers {
		if w.lease == lease || w.carrier(lease) != nil {
			return w
		}
	}
	return nil
}

// living are the workers that run.
func (s *Sim) living() (all []*worker) {
	for _, w := range s.workers {
		if w.alive {
			all = append(all, w)
		}
	}
	return all
}

// Quiet ends whatever the adversary does, and Settle checks that it settles within d and that
// nothing is written for another minute.
func (s *Sim) Quiet(d time.Duration) {
	s.quiet = true
	s.Run(d)
	if bad := s.Settled(); bad != "" && len(s.broken) == 0 {
		s.fail("after %v of quiet: %s", d, bad)
		return
	}
	before := s.rev
	s.Run(time.Minute)
	if bad := s.Settled(); bad != "" {
		s.fail("a minute after it had settled: %s", bad)
	}
	if s.rev != before {
		s.fail("%d writes after it had settled", s.rev-before)
	}
}

// sorted keys of the store, for random choices that a seed repeats.
func (s *Sim) sorted() []string { return slices.Sorted(maps.Keys(s.store)) }
