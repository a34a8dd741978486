package shards

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/shards"
)

// settled is a run of n shards whose workers, of weight 1, have shared them out.
func settled(rules Rules, n, workers int) *Sim {
	s := New(Config{Seed: 1, N: n, Lag: 50 * time.Millisecond, Rules: rules})
	s.quiet = true
	for range workers {
		s.Join(1)
	}
	s.Run(30 * time.Second)
	s.Ownerless = 0
	return s
}

// carried is a run in which each lease has the keys of two shards at most.
func carried(rules Rules, n, workers int) *Sim {
	s := New(Config{Seed: 1, N: n, Lag: 50 * time.Millisecond, Rules: rules, PerLease: 2})
	s.quiet = true
	for range workers {
		s.Join(1)
	}
	s.Run(30 * time.Second)
	return s
}

// planning is the worker that plans; another is one that does not.
func (s *Sim) planning() (plans, another *worker) {
	first := s.queue(s.keys.Planner().Prefix)[0]
	for _, w := range s.living() {
		if s.store[first].lease == w.lease {
			plans = w
		} else {
			another = w
		}
	}
	return plans, another
}

// within fails unless each shard that had an owner has had one again after d at most.
func (s *Sim) within(d time.Duration) {
	if s.Ownerless > d {
		s.fail("a shard has nobody for %v", s.Ownerless)
	}
}

// A rule of the design, and a scenario in which it is needed.
var rules = []struct {
	name string
	off  Rules
	run  func(Rules) *Sim
}{
	{"those who lose learn it", Rules{GainersOnly: true}, func(r Rules) *Sim {
		s := settled(r, 6, 2)
		s.Join(1)
		s.Quiet(30 * time.Second)
		return s
	}},
	{"a late copy of a wish is refused", Rules{BlindWrite: true}, func(r Rules) *Sim {
		s := New(Config{Seed: 1, N: 6, Lag: 50 * time.Millisecond, Rules: r})
		s.Copies, s.quiet = 60*time.Second, true
		s.Join(1)
		s.Run(20 * time.Second)
		s.Join(1)
		s.Quiet(30 * time.Second)
		return s
	}},
	{"a planner knows the wishes that others wrote", Rules{ForgetWishes: true}, func(r Rules) *Sim {
		s := settled(r, 6, 2)
		w, all := s.living()[0], shards.SetOf(0, 1, 2, 3, 4, 5)
		s.put(s.keys.Wish(w.lease), all.Encode(), w.lease)
		s.Quiet(30 * time.Second)
		return s
	}},
	{"a plan waits for five Settle at most", Rules{NoBound: true}, func(r Rules) *Sim {
		s := settled(r, 6, 3)
		_, w := s.planning()
		end := s.now + time.Minute
		weight := -1
		var flap func()
		flap = func() {
			if s.now < end {
				weight = -3 - weight
				s.put(s.keys.Member(s.N, 0xf1a9), shards.Member{Weight: weight}.Encode(), 0xf1a9)
				s.after(settle/2, flap)
			} else {
				s.remove(s.keys.Member(s.N, 0xf1a9))
			}
		}
		flap()
		w.Kill()
		s.Quiet(2 * time.Minute)
		s.within(5*settle + time.Second)
		return s
	}},
	{"a worker that leaves resigns first", Rules{KeepPlanning: true}, func(r Rules) *Sim {
		s := settled(r, 6, 3)
		w, _ := s.planning()
		slow := false
		w.Slow = func() time.Duration { // of one shard
			if slow {
				return 0
			}
			slow = true
			return 2 * time.Minute
		}
		w.Leave()
		s.Quiet(3 * time.Minute)
		s.within(time.Second)
		return s
	}},
	{"a worker looks once more before it gives up", Rules{NoLook: true}, func(r Rules) *Sim {
		s := settled(r, 1, 1)
		w, b := s.living()[0], s.Join(-1)
		s.Run(5 * time.Second)
		w.Slow = func() time.Duration { return 500 * time.Millisecond }
		s.put(s.keys.Wish(b.lease), shards.SetOf(0).Encode(), b.lease)
		s.put(s.keys.Wish(w.lease), nil, w.lease)
		s.Run(400 * time.Millisecond) // before the next plan
		b.end()
		s.remove(b.own()...)
		s.Quiet(30 * time.Second)
		s.within(0)
		return s
	}},
	{"what has no owner is taken beyond the share in the end", Rules{NoGrowth: true}, func(r Rules) *Sim {
		s := New(Config{Seed: 1, N: 9, Lag: 50 * time.Millisecond, Rules: r})
		s.Blocked, s.quiet = true, true
		s.Join(1)
		s.Join(1)
		s.Join(1)
		s.Run(time.Second)
		s.living()[2].deaf = true
		s.Run(3 * time.Minute)
		for i := range s.N {
			if len(s.queue(s.keys.Queue(i).Prefix)) == 0 {
				s.fail("shard %d has nobody", i)
			}
		}
		return s
	}},
	{"a carrier is named before a key is put on it", Rules{AnnounceLate: true}, func(r Rules) *Sim {
		s := carried(r, 8, 2)
		s.Quiet(0)
		return s
	}},
	{"the end of a member's session ends its carriers", Rules{KeepCarriers: true}, func(r Rules) *Sim {
		s := carried(r, 8, 2)
		w := s.living()[0]
		w.Away = 5 * time.Minute
		w.CutOff()
		s.Quiet(time.Minute)
		return s
	}},
	{"what a member cannot take is a reason to plan", Rules{MembersOnly: true}, func(r Rules) *Sim {
		s := settled(r, 6, 2)
		w := s.living()[0]
		fails := shards.Set{} // fewer than make a worker sick, which would be a change of the member
		for i := range w.holds {
			if fails.Len() < 2 {
				fails.Add(i)
				s.after(time.Second, func() { w.returned(i) })
			}
		}
		w.Fails = fails.Has
		s.Run(30 * time.Second)
		s.within(3 * time.Second)
		return s
	}},
	{"a sick worker gets one shard at a time", Rules{AllWell: true}, func(r Rules) *Sim {
		s := settled(r, 12, 3)
		s.Join(1).Fails = func(int) bool { return true }
		s.Run(10 * time.Minute)
		return s.moved(0, 40)
	}},
	{"a worker that comes back gets its place", Rules{NoPlaces: true}, func(r Rules) *Sim {
		s := New(Config{Seed: 1, N: 12, Lag: 50 * time.Millisecond, Rules: r})
		s.quiet = true
		for i := range 3 {
			s.JoinAs(string(rune('a'+i)), 1)
		}
		s.Run(10 * time.Minute)
		clear(s.moves)
		_, w := s.planning()
		w.end()
		s.after(ttl, func() { s.remove(w.own()...) })
		s.after(time.Second, func() { s.JoinAs(w.Self.ID, 1) })
		s.Quiet(time.Minute)
		return s.moved(0, 4) // those of one worker, to the one that came back
	}},
	{"no other shard moves for one that fails wherever it is", Rules{NoPoison: true}, func(r Rules) *Sim {
		s := settled(r, 12, 3)
		for _, w := range s.living() {
			w.Fails = func(i int) bool { return i == 0 }
			s.after(time.Second, func() { w.fail(0) })
		}
		s.Run(10 * time.Minute)
		return s.moved(1, 4)
	}},
}

// moved fails if shards have moved more often than most times in all, not counting those below from.
func (s *Sim) moved(from, most int) *Sim {
	n := 0
	for _, moves := range s.moves[from:] {
		n += moves
	}
	if n > most {
		s.fail("%d moves", n)
	}
	return s
}

// fail ends the work of shard i, if it runs.
func (w *worker) fail(i int) {
	if w.running[i] {
		w.returned(i)
	}
}

// rule: SH3, SH6
func TestEachRuleOfShardsIsNeeded(t *testing.T) {
	for _, c := range rules {
		t.Run(c.name, func(t *testing.T) {
			assert.Empty(t, c.run(Rules{}).Broken())
			assert.NotEmpty(t, c.run(c.off).Broken(), "without it nothing is broken")
		})
	}
}
