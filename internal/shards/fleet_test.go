package shards

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A fleet is a model of workers that measure the loads of their shards: their meters, their member keys,
// which the planner sees late, the planner, and moves that take a moment. Time goes in steps.
type fleet struct {
	*testing.T
	*rand.Rand
	n       int
	ttl     time.Duration
	p       *Planner
	keys    keys.Shards
	now     time.Time
	rev     int64
	workers []*measuring
	owner   []int
	since   []time.Time
	late    []lateEvent

	// the truth
	load  func(i int, at time.Duration) float64
	noise float64                         // of each sample, up or down
	cold  func(age time.Duration) float64 // what a sample is multiplied by when a shard has just moved

	moves     int
	bytes     int       // that reports had
	reports   int       // how many there were
	changedAt time.Time // the last report
	began     time.Time
}

// measuring is a worker.
type measuring struct {
	*Meter
	lease  int64
	weight int
	next   time.Time // sample
	wrote  string
	alive  bool
}

type lateEvent struct {
	at time.Time
	do func()
}

const fleetStep = 250 * time.Millisecond

// newFleet has n shards on k workers of weight 1, and waits until they tell loads and a planner heeds them.
func newFleet(t *testing.T, seed uint64, n, k int, ttl time.Duration, load func(i int, at time.Duration) float64) *fleet {
	key, err := keys.NewShards("", "jobs")
	require.NoError(t, err)
	f := &fleet{T: t, Rand: rand.New(rand.NewPCG(seed, 7)), n: n, ttl: ttl, keys: key, now: time.Unix(1_000_000, 0),
		owner: make([]int, n), since: make([]time.Time, n), load: load, cold: func(time.Duration) float64 { return 1 }}
	f.began = f.now
	for i := range f.owner {
		f.owner[i] = Nobody
	}
	f.p = NewPlanner(NewView(key, n), "jobs", ttl, time.Second, f.now)
	for range k {
		f.join(1)
	}
	return f
}

// event is an event that the planner sees now.
func (f *fleet) event(key string, value []byte, deleted bool) {
	f.rev++
	f.p.Apply(f.now, Event{Key: key, Value: value, Deleted: deleted, Create: f.rev, Mod: f.rev})
}

func (f *fleet) join(weight int) {
	w := &measuring{Meter: NewMeter(f.ttl), lease: int64(len(f.workers) + 1), weight: weight, alive: true,
		next: f.now.Add(time.Duration(f.Int64N(int64(f.ttl / 8))))}
	f.workers = append(f.workers, w)
	f.event(f.keys.Member(f.n, w.lease), Member{Weight: weight}.Encode(), false)
	f.event(f.keys.Wish(w.lease), nil, false)
}

// die ends a worker. Its keys go with its lease.
func (f *fleet) die(m int) {
	f.workers[m].alive = false
	f.after(f.ttl, func() {
		f.event(f.keys.Member(f.n, f.workers[m].lease), nil, true)
		f.event(f.keys.Wish(f.workers[m].lease), nil, true)
		for i, owner := range f.owner {
			if owner == m {
				f.event(f.queueKey(i, m), nil, true)
				f.owner[i] = Nobody
			}
		}
	})
}

func (f *fleet) queueKey(i, m int) string {
	return keys.QueueKey{Lease: f.workers[m].lease, N: 1}.In(f.keys.Queue(i).Prefix)
}

func (f *fleet) after(d time.Duration, do func()) {
	f.late = append(f.late, lateEvent{f.now.Add(d), do})
}

// run lets time pass, and calls each once a second.
func (f *fleet) run(d time.Duration, each ...func()) {
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(fleetStep)
		late := f.late
		f.late = nil
		for _, e := range late {
			if e.at.After(f.now) {
				f.late = append(f.late, e)
			} else {
				e.do()
			}
		}
		for m, w := range f.workers {
			if w.alive && !f.now.Before(w.next) {
				w.next = f.now.Add(w.Every())
				f.sample(m, w)
			}
		}
		if planned, _ := f.p.Tick(f.now); !planned {
			require.True(f, f.p.Wake(f.now).After(f.now), "a loop would turn without end")
		}
		for _, x := range f.p.Writes() {
			f.rev++
			f.p.Wrote(f.now, x, f.rev)
		}
		f.follow()
		for _, do := range each {
			if f.now.Sub(f.began)%time.Second == 0 {
				do()
			}
		}
	}
}

// sample is what a worker measures, and what it writes because of that.
func (f *fleet) sample(m int, w *measuring) {
	var held Set
	loads := map[int]float64{}
	for i, owner := range f.owner {
		if owner == m {
			held.Add(i)
			noise := 1 + f.noise*(2*f.Float64()-1)
			loads[i] = f.load(i, f.now.Sub(f.began)) * noise * f.cold(f.now.Sub(f.since[i]))
		}
	}
	w.Sampled(f.now, held, loads)
	told := w.Told(f.now)
	if string(told) == w.wrote {
		return
	}
	w.wrote = string(told)
	f.bytes += len(told)
	f.reports++
	f.after(time.Duration(f.Int64N(int64(500*time.Millisecond))), func() {
		if w.alive {
			f.changedAt = f.now
			f.event(f.keys.Member(f.n, w.lease), Member{Weight: w.weight, Loads: told}.Encode(), false)
		}
	})
}

// follow has the workers queue for what they are wished, and get it a moment later.
func (f *fleet) follow() {
	for m, w := range f.workers {
		state := f.p.View.Members[w.lease]
		if !w.alive || state == nil {
			continue
		}
		for i := range state.Wish.All() {
			if f.owner[i] == m || f.p.View.In(i, w.lease) {
				continue
			}
			f.event(f.queueKey(i, m), nil, false)
			f.after(time.Second, func() {
				if old := f.owner[i]; old != Nobody {
					f.event(f.queueKey(i, old), nil, true)
					f.moves++
				}
				f.owner[i], f.since[i] = m, f.now
			})
		}
	}
}

// truth are the loads now.
func (f *fleet) truth() []float64 {
	all := make([]float64, f.n)
	for i := range all {
		all[i] = f.load(i, f.now.Sub(f.began))
	}
	return all
}

// candidates are the workers that live, with their index.
func (f *fleet) candidates() (all []Candidate) {
	for _, w := range f.workers {
		c := Candidate{Lease: w.lease, Weight: w.weight}
		if !w.alive {
			c.Weight = -1
		}
		all = append(all, c)
	}
	return all
}

// worst is how high the highest worker is above its limit, by the true loads.
func (f *fleet) worst() (worst float64) {
	b := ByLoad{Load: f.truth()}
	b.begin("jobs", f.candidates(), f.owner, nil)
	b.level = b.levelOf()
	for _, m := range b.pool {
		worst = max(worst, b.ratio(m)/b.limit(m))
	}
	return worst
}

// An oracle knows the true loads at once, moves shards at once, and has one edge.
type oracle struct {
	owner []int
	moves int
}

const oneEdge = 1.15

// step evens out what is uneven.
func (o *oracle) step(f *fleet) {
	b := ByLoad{Load: f.truth(), Edge: oneEdge, Inner: oneEdge}
	to := b.Plan("jobs", f.candidates(), o.owner, nil, nil)
	for i, m := range to {
		if o.owner[i] != Nobody && m != o.owner[i] {
			o.moves++
		}
	}
	o.owner = to
}

// zipf are loads of n shards, mixed up: 1, 1/2^s, 1/3^s, ...
func zipf(r *rand.Rand, n int, s float64) []float64 {
	all := make([]float64, n)
	for rank, i := range r.Perm(n) {
		all[i] = 100 * math.Pow(float64(rank+1), -s)
	}
	return all
}
