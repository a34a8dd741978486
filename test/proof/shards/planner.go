package shards

import (
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
)

// planner is a term of the planner, on a worker's session.
type planner struct {
	*shards.Planner
	s     *Sim
	w     *worker
	key   string // by which it was elected
	over  bool
	heard time.Duration
	sent  map[int64]time.Duration // writes under way, or not to be repeated yet
	own   map[int64]shards.Set    // with ForgetWishes, what it has written
}

// elect reads who is first, and begins terms.
func (s *Sim) elect() {
	s.watches = append(s.watches, func(e shards.Event) {
		k := s.keys.Parse(e.Key)
		if k.Kind != keys.ShardsPlanner {
			return
		}
		if w := s.worker(k.Lease); e.Deleted && w != nil && w.plans != nil && w.plans.key == e.Key {
			s.later(w.plans.stop) // it learns that it does not lead any more
		}
		q := s.queue(s.keys.Planner().Prefix)
		if len(q) == 0 || s.Blocked {
			return
		}
		w := s.worker(s.store[q[0]].lease)
		if w == nil || !w.alive || w.deaf || w.plans != nil && w.plans.key == q[0] {
			return
		}
		p := &planner{s: s, w: w, key: q[0], sent: map[int64]time.Duration{}, own: map[int64]shards.Set{}}
		if w.plans != nil {
			w.plans.stop()
		}
		w.plans = p
		s.later(p.begin)
	})
}

func (p *planner) stop() { p.over = true }

// leads reports whether a write's guard holds, which requires that its key exists and is first.
func (p *planner) leads() bool {
	q := p.s.queue(p.s.keys.Planner().Prefix)
	return len(q) > 0 && q[0] == p.key
}

// ended reports whether the term has ended as far as the planner knows.
func (p *planner) ended() bool {
	return p.over || !p.w.alive || p.w.deaf || p.w.plans != p
}

// begin reads everything, and follows from there.
func (p *planner) begin() {
	s := p.s
	if p.ended() {
		return
	}
	view := shards.NewView(s.keys, s.N)
	for _, key := range s.sorted() {
		it := s.store[key]
		view.Apply(p.seen(shards.Event{Key: key, Value: it.value, Create: it.create, Mod: it.mod}))
	}
	p.Planner = shards.NewPlanner(view, "name", ttl, settle, s.time())
	if s.Rules.NoBound {
		p.Bound = 1000 * time.Hour
	}
	s.tell("%x plans", p.w.lease)
	s.watches = append(s.watches, func(e shards.Event) {
		if p.ended() {
			return
		}
		p.heard = max(p.heard, s.now+s.delay())
		s.after(p.heard-s.now, func() {
			if !p.ended() {
				p.apply(e)
			}
		})
	})
	var turn func()
	turn = func() {
		if p.ended() {
			return
		}
		p.Tick(s.time())
		p.write()
		s.after(min(p.Wake(s.time()).Sub(s.time()), settle/4), turn)
	}
	turn()
}

// seen is what the planner makes of an event. With ForgetWishes it knows of wishes only that they
// have changed, and what it has written. With AllWell and NoPoison it does not know which members are
// sick, or which shards have failed.
func (p *planner) seen(e shards.Event) shards.Event {
	r := p.s.Rules
	switch k := p.s.keys.Parse(e.Key); {
	case r.ForgetWishes && k.Kind == keys.ShardsWish:
		e.Value = p.own[k.Lease].Encode()
	case (r.AllWell || r.NoPoison || r.NoPlaces) && k.Kind == keys.ShardsMember && !e.Deleted:
		m, err := shards.DecodeMember(p.s.N, e.Value)
		if err != nil {
			panic(err)
		}
		if r.AllWell {
			m.Health = shards.Well
		}
		if r.NoPlaces {
			m.ID = ""
		}
		if r.NoPoison {
			m.Spared = m.Cannot
		}
		e.Value = m.Encode()
	}
	return e
}

func (p *planner) apply(e shards.Event) {
	e = p.seen(e)
	if r := p.s.keys.Parse(e.Key); p.s.Rules.ForgetWishes && r.Kind == keys.ShardsWish {
		p.View.Apply(e)
		return
	}
	if p.s.Rules.MembersOnly && p.View.Apply(e)&shards.MembersChanged == 0 {
		return
	}
	p.Apply(p.s.time(), e)
	if p.s.Rules.MembersOnly {
		p.Changed(p.s.time())
	}
}

// write sends what is to be written.
func (p *planner) write() {
	s := p.s
	for _, x := range p.Writes() {
		if until, sent := p.sent[x.Lease]; sent && s.now < until {
			continue
		}
		old := p.View.Members[x.Lease].Wish
		if s.Rules.GainersOnly && onlyLoses(old, x.Wish) {
			p.Wrote(s.time(), x, x.Mod+1)
			continue
		}
		p.sent[x.Lease] = s.now + 2*time.Second
		if s.quiet || s.IntN(10) > 0 {
			s.later(func() { p.applied(x, s.IntN(20) > 0) })
		}
		if s.Copies > 0 {
			s.after(s.Copies, func() { p.applied(x, false) })
		}
		if !s.quiet && s.IntN(10) == 0 { // a copy of it is late
			s.after(rand0(s, 30*time.Second), func() { p.applied(x, false) })
		}
	}
}

func onlyLoses(old, wish shards.Set) bool {
	for i := range wish.All() {
		if !old.Has(i) {
			return false
		}
	}
	return true
}

// applied is the server's part of a write, which compares the term and the key's revision.
func (p *planner) applied(x shards.Write, answered bool) {
	s := p.s
	key := s.keys.Wish(x.Lease)
	it, there := s.store[key]
	rev := int64(0)
	if there && (s.Rules.BlindWrite || p.leads() && it.mod == x.Mod) {
		rev = s.put(key, x.Wish.Encode(), it.lease)
		p.own[x.Lease] = x.Wish
		s.tell("wish of %x: %q", x.Lease, x.Wish.Encode())
	}
	if answered {
		s.later(func() {
			if !p.ended() {
				delete(p.sent, x.Lease)
				p.Wrote(s.time(), x, rev)
			}
		})
	}
}
