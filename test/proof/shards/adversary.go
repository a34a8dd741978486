package shards

import (
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
)

// Adversary does at random whatever it can, until the run is quiet. It joins, kills and cuts off
// workers, lets them leave, deletes keys, and writes any wish.
func (s *Sim) Adversary(most int, pause time.Duration) {
	var act func()
	act = func() {
		if s.quiet {
			return
		}
		s.adverse(most)
		s.after(rand0(s, 2*pause), act)
	}
	s.after(rand0(s, pause), act)
}

func (s *Sim) adverse(most int) {
	living := s.living()
	if len(living) == 0 {
		s.Join(1)
		return
	}
	w := living[s.IntN(len(living))]
	switch s.IntN(13) {
	case 0, 1:
		if len(living) < most {
			s.JoinAs([]string{"", "a", "b", "c"}[s.IntN(4)], []int{1, 1, 1, 2, 3, -1}[s.IntN(6)])
		}
	case 2:
		w.Kill()
	case 3:
		w.CutOff()
	case 4:
		w.Leave()
	case 5, 6:
		if all := s.sorted(); len(all) > 0 {
			key := all[s.IntN(len(all))]
			s.tell("%q is deleted", key)
			s.remove(key)
		}
	case 7:
		fails := s.IntN(s.N)
		w.Fails = func(i int) bool { return i == fails && !s.quiet }
	case 8:
		w.Slow = func() time.Duration { return rand0(s, 8*time.Second) }
	case 9:
		w.CutCarrier()
	default:
		s.anyWish()
	}
}

// anyWish gives somebody any wish.
func (s *Sim) anyWish() {
	var all []string
	for _, key := range s.sorted() {
		if s.keys.Parse(key).Kind == keys.ShardsWish {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		return
	}
	key := all[s.IntN(len(all))]
	var wish shards.Set
	for i := range s.N {
		if s.IntN(3) == 0 {
			wish.Add(i)
		}
	}
	s.tell("%q becomes %q", key, wish.Encode())
	s.put(key, wish.Encode(), s.store[key].lease)
}
