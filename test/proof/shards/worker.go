package shards

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
)

// attempt is a key of a worker in a shard's queue, or one that it is about to put.
type attempt struct {
	shard int
	key   string
	lease int64 // that its key is on
	gone  bool  // it is not wanted any more
}

// worker is one call of Run.
type worker struct {
	*shards.Worker
	s     *Sim
	lease int64 // 0 if it has no session
	alive bool  // it runs
	deaf  bool  // its Run hangs, and its session lives
	left  bool  // it was told to leave
	tries int

	carriers []*carrier

	attempts map[int]*attempt // queued for, or wait
	holds    map[int]*attempt
	running  map[int]bool // work runs
	wrote    string       // the member key, as it was written last
	heard    time.Duration
	plans    *planner

	// how its work behaves
	Fails  func(i int) bool     // it returns by itself
	Slow   func() time.Duration // how long it takes to return when it is to; a moment if nil
	Lively time.Duration        // how long preparing takes
	Away   time.Duration        // how much longer it is without a session after it was cut off
}

// Join begins a worker without an ID.
func (s *Sim) Join(weight int) *worker { return s.JoinAs("", weight) }

// JoinAs begins a worker.
func (s *Sim) JoinAs(id string, weight int) *worker {
	w := &worker{s: s, alive: true, attempts: map[int]*attempt{}, holds: map[int]*attempt{}, running: map[int]bool{}}
	w.Worker = shards.NewWorker(s.N, shards.Member{Weight: weight, ID: id}, ttl, settle, s.Moves)
	w.Shuffle, w.Draw = s.Shuffle, s.IntN
	if s.Rules.NoGrowth {
		w.Growth = 0
	}
	s.workers = append(s.workers, w)
	if s.Loads {
		w.measure()
	}
	w.join()
	var tick func()
	tick = func() {
		if w.alive {
			w.step()
			s.after(settle/4, tick)
		}
	}
	s.after(rand0(s, settle/4), tick)
	var count func()
	count = func() {
		if w.alive {
			w.count()
			s.after(ttl-ttl/10+rand0(s, ttl/5), count)
		}
	}
	s.after(rand0(s, ttl), count)
	return w
}

// measure samples the loads of what the worker holds, from time to time.
func (w *worker) measure() {
	s := w.s
	w.Meter = shards.NewMeter(ttl)
	var sample func()
	sample = func() {
		if !w.alive {
			return
		}
		loads := map[int]float64{}
		for i := range w.Held().All() {
			loads[i] = float64(1 + i%5)
			if !s.quiet {
				loads[i] = []float64{0, 1, 1, 1, 10, 1000, math.Inf(1), math.NaN()}[s.IntN(8)]
			}
		}
		w.Meter.Sampled(s.time(), w.Held(), loads)
		s.after(w.Meter.Every(), sample)
	}
	s.after(rand0(s, ttl), sample)
}

// eligible reports whether it ought to have a share.
func (w *worker) eligible() bool {
	return w.alive && !w.left && !w.deaf && w.lease != 0 && !w.gaveWay()
}

// gaveWay reports whether a later worker with the same ID has its place.
func (w *worker) gaveWay() bool {
	created := func(w *worker) int64 { return w.s.store[w.s.keys.Member(w.s.N, w.lease)].create }
	return w.Self.ID != "" && slices.ContainsFunc(w.s.workers, func(other *worker) bool {
		return other != w && other.alive && !other.left && other.Self.ID == w.Self.ID && created(other) > created(w)
	})
}

// join makes a session, a member key, a wish key, and a candidate.
func (w *worker) join() {
	s := w.s
	s.later(func() {
		if !w.alive {
			return
		}
		s.leases++
		w.lease = s.leases
		w.Joined(s.time())
		w.wrote = string(w.Member(s.time()).Encode())
		s.put(s.keys.Member(s.N, w.lease), []byte(w.wrote), w.lease)
		s.put(s.keys.Wish(w.lease), nil, w.lease)
		w.stand()
		s.tell("%x joins", w.lease)
	})
}

// stand becomes a candidate for the planner.
func (w *worker) stand() {
	if !w.left {
		w.tries++
		w.s.put(keys.QueueKey{Lease: w.lease, N: int64(w.tries)}.In(w.s.keys.Planner().Prefix), nil, w.lease)
	}
}

// in does something in the worker's loop after a delay, in the order of the calls, unless its
// session has ended by then.
func (w *worker) in(do func()) {
	lease := w.lease
	w.heard = max(w.heard, w.s.now+w.s.delay())
	w.s.after(w.heard-w.s.now, func() {
		if w.alive && !w.deaf && w.lease == lease {
			do()
			w.step()
		}
	})
}

// changed is the worker's watch of its keys, and of the queues in which it holds.
func (w *worker) changed(e shards.Event) {
	s := w.s
	if !w.alive || w.lease == 0 {
		return
	}
	switch k := s.keys.Parse(e.Key); {
	case k.Kind == keys.ShardsWish && k.Lease == w.lease && e.Deleted:
		w.in(func() {
			if _, there := s.store[e.Key]; !there {
				s.put(e.Key, nil, w.lease)
			}
		})
	case k.Kind == keys.ShardsWish && k.Lease == w.lease:
		wish, _ := shards.Decode(s.N, e.Value)
		w.in(func() { w.Wished(s.time(), wish, e.Mod) })
	case k.Kind == keys.ShardsMember && k.Lease == w.lease && e.Deleted:
		w.in(func() { w.wrote = "" })
	case k.Kind == keys.ShardsPlanner && k.Lease == w.lease && e.Deleted:
		w.in(func() {
			if !w.left && len(s.queue(s.keys.Planner().Prefix+fmt.Sprintf("%x-", w.lease))) == 0 {
				w.stand()
			}
		})
	case k.Kind == keys.ShardsQueue:
		w.queueChanged(k.Shard, e)
	}
}

func (w *worker) queueChanged(i int, e shards.Event) {
	if a := w.holds[i]; a != nil {
		if e.Deleted && e.Key == a.key {
			w.in(func() {
				if w.holds[i] == a {
					w.lose(i)
				}
			})
			return
		}
		w.notice(i)
	}
	if a := w.attempts[i]; a != nil && a.key != "" {
		switch q := w.s.queue(w.s.keys.Queue(i).Prefix); {
		case e.Deleted && e.Key == a.key:
			w.in(func() {
				if w.attempts[i] == a {
					delete(w.attempts, i)
					w.Refused(w.s.time(), i, false)
				}
			})
		case len(q) > 0 && q[0] == a.key:
			w.in(func() { w.win(a) })
		}
	}
}

// notice reports later whether somebody waits now behind the hold of shard i.
func (w *worker) notice(i int) {
	waits := len(w.s.queue(w.s.keys.Queue(i).Prefix)) > 1
	a := w.holds[i]
	w.in(func() {
		if w.holds[i] == a {
			w.Waits(i, waits)
		}
	})
}

// win makes an attempt a hold, if it is still wanted and there.
func (w *worker) win(a *attempt) {
	if _, there := w.s.store[a.key]; !there || a.gone || w.attempts[a.shard] != a {
		return
	}
	delete(w.attempts, a.shard)
	w.holds[a.shard] = a
	w.Acquired(w.s.time(), a.shard)
	w.notice(a.shard)
}

func (w *worker) lose(i int) {
	delete(w.holds, i)
	w.Lost(i, w.running[i])
	if w.running[i] {
		w.s.after(w.slow(), func() { w.returned(i) })
	}
}

func (w *worker) slow() time.Duration {
	if w.Slow != nil {
		return w.Slow()
	}
	return w.s.delay()
}

// returned is the end of a work.
func (w *worker) returned(i int) {
	if !w.alive || !w.running[i] {
		return
	}
	delete(w.running, i)
	w.Returned(w.s.time(), i)
	w.step()
}

// step does what is next.
func (w *worker) step() {
	s := w.s
	if !w.alive || w.deaf || w.lease == 0 {
		return
	}
	offered := w.Offered()
	for _, a := range w.Next(s.time()) {
		w.do(a)
	}
	for i := range w.Offered().All() {
		if !offered.Has(i) {
			w.notice(i)
		}
	}
	if m := string(w.Member(s.time()).Encode()); m != w.wrote {
		w.wrote = m
		lease := w.lease
		s.later(func() {
			if w.alive && w.lease == lease && w.wrote == m {
				s.put(s.keys.Member(s.N, lease), []byte(m), lease)
				w.announced(m)
			}
		})
	}
	if w.left && w.Idle() && len(w.running) == 0 {
		w.end()
		s.remove(w.own()...)
	}
}

// end ends its sessions and the worker.
func (w *worker) end() { w.alive = false }

// own are all keys on its leases.
func (w *worker) own() (all []string) {
	all = w.s.on(w.lease)
	for _, c := range w.carriers {
		all = append(all, w.s.on(c.lease)...)
	}
	return all
}

// on are all keys on a lease.
func (s *Sim) on(lease int64) (all []string) {
	for _, key := range s.sorted() {
		if s.store[key].lease == lease {
			all = append(all, key)
		}
	}
	return all
}

func (w *worker) do(a shards.Action) {
	s, i := w.s, a.Shard
	switch a.Kind {
	case shards.Enqueue:
		at := &attempt{shard: i}
		w.attempts[i] = at
		s.after(w.Lively, func() { w.in(func() { w.enqueue(at) }) })
	case shards.Try:
		at := &attempt{shard: i}
		w.attempts[i] = at
		w.in(func() {
			if len(s.queue(s.keys.Queue(i).Prefix)) > 0 {
				delete(w.attempts, i)
				w.Refused(s.time(), i, false)
				return
			}
			w.enqueue(at)
		})
	case shards.Quit:
		at := w.attempts[i]
		at.gone = true
		w.in(func() {
			if w.attempts[i] == at {
				delete(w.attempts, i)
				s.remove(at.key)
				w.Refused(s.time(), i, false)
			}
		})
	case shards.Work:
		w.work(i)
	case shards.Move:
		s.after(w.slow(), func() { w.returned(i) })
	case shards.Recheck:
		w.recheck(i)
	case shards.Release:
		w.release(i)
	}
}

// enqueue puts the key of an attempt.
func (w *worker) enqueue(a *attempt) {
	if a.gone || w.attempts[a.shard] != a {
		return
	}
	if a.lease = w.roomy(); a.lease == 0 { // until a carrier is announced
		lease := w.lease
		w.s.after(50*time.Millisecond, func() {
			if w.alive && !w.deaf && w.lease == lease {
				w.enqueue(a)
			}
		})
		return
	}
	w.tries++
	w.Prepared(a.shard)
	a.key = keys.QueueKey{Lease: a.lease, N: int64(w.tries)}.In(w.s.keys.Queue(a.shard).Prefix)
	w.s.put(a.key, nil, a.lease)
}

func (w *worker) work(i int) {
	s := w.s
	if w.running[i] {
		s.fail("%x works on shard %d twice", w.lease, i)
	}
	if w.holds[i] == nil {
		s.fail("%x works on shard %d and does not hold it", w.lease, i)
	}
	w.running[i] = true
	if w.Fails != nil && w.Fails(i) {
		s.after(100*time.Millisecond, func() { w.returned(i) })
	}
}

// recheck reads whether somebody waits.
func (w *worker) recheck(i int) {
	s, a := w.s, w.holds[i]
	w.in(func() {
		if w.holds[i] == a {
			waits := len(s.queue(s.keys.Queue(i).Prefix)) > 1 || s.Rules.NoLook
			rev := s.rev
			w.in(func() {
				if w.holds[i] == a {
					w.Rechecked(s.time(), i, rev, waits)
				}
			})
		}
	})
}

func (w *worker) release(i int) {
	s, a := w.s, w.holds[i]
	if w.running[i] {
		s.fail("%x releases shard %d while it works on it", w.lease, i)
	}
	w.in(func() {
		if w.holds[i] == a {
			delete(w.holds, i)
			s.remove(a.key)
			w.Released(i)
		}
	})
}

// count counts the queues (rule SH6).
func (w *worker) count() {
	s := w.s
	w.in(func() {
		owned, n := shards.Set{}, 0
		view := shards.NewView(s.keys, s.N)
		for key, it := range s.store {
			view.Apply(shards.Event{Key: key, Value: it.value, Create: it.create, Mod: it.mod})
			if k := s.keys.Parse(key); k.Kind == keys.ShardsQueue {
				owned.Add(k.Shard)
				n++
			}
		}
		if !w.Counted(n, len(view.ByAge()), view.Said.AllPoison()) {
			return
		}
		var empty shards.Set
		for i := range s.N {
			if !owned.Has(i) {
				empty.Add(i)
			}
		}
		share := view.Share(w.lease)
		w.in(func() { w.Listed(s.time(), empty, share) })
	})
}

// Leave begins an orderly leave.
func (w *worker) Leave() {
	s := w.s
	if w.left || !w.alive {
		return
	}
	w.left = true
	if w.plans != nil {
		w.plans.stop()
	}
	if !s.Rules.KeepPlanning {
		s.remove(s.queue(s.keys.Planner().Prefix + fmt.Sprintf("%x-", w.lease))...)
	}
	w.Worker.Leave(s.time())
	s.tell("%x leaves", w.lease)
	w.step()
}

// Kill ends the process. Its keys go with its lease.
func (w *worker) Kill() {
	if !w.alive {
		return
	}
	w.end()
	w.s.tell("%x dies", w.lease)
	w.s.expire(w.lease, ttl)
	for _, c := range w.carriers {
		w.s.expire(c.lease, ttl)
	}
}

// CutOff ends its session: it loses what it holds, its keys go later, and it joins again.
func (w *worker) CutOff() {
	if !w.alive || w.lease == 0 {
		return
	}
	s := w.s
	own := w.lease
	s.tell("%x is cut off", own)
	if w.plans != nil {
		w.plans.stop()
	}
	for i := range w.attempts {
		w.Refused(s.time(), i, false)
	}
	clear(w.attempts)
	for i, a := range w.holds {
		if a.lease == own || !s.Rules.KeepCarriers {
			w.lose(i)
		}
	}
	if !s.Rules.KeepCarriers {
		w.closeCarriers()
	}
	w.lease = 0
	s.after(ttl/4+rand0(s, ttl), func() {
		s.remove(s.on(own)...)
		s.after(w.Away, func() {
			if w.alive {
				w.join()
			}
		})
	})
}
