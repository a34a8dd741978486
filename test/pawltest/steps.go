package pawltest

import "time"

// blocked is how long a step may take before it counts as waiting for the other holder's. It
// decides only which orders are tried.
const blocked = 5 * time.Millisecond

// steps has both holders make their calls, a step at a time, in the order that choose says, which it
// returns.
func steps(holders [2]*holder, choose func(turn int) choice) (order []string) {
	s := stepper{holders: holders}
	for _, h := range holders {
		go h.calls() // ends with the last call: s waits for it
	}
	for s.await(); s.ended != [2]bool{true, true}; s.await() {
		order = append(order, s.grant(choose(len(order))))
	}
	return order
}

type stepper struct {
	holders [2]*holder
	waits   [2]bool // for a turn
	ended   [2]bool
}

// await waits until each holder waits for a turn or has ended, or until one waits for a turn, and
// the other one seems to wait for it.
func (s *stepper) await() {
	var late <-chan time.Time
	for s.runs(0) || s.runs(1) {
		if late == nil && (s.waits[0] || s.waits[1]) {
			late = time.After(blocked)
		}
		select {
		case on := <-s.holders[0].arrived:
			s.waits[0], s.ended[0] = on, !on
		case on := <-s.holders[1].arrived:
			s.waits[1], s.ended[1] = on, !on
		case <-late:
			return
		}
	}
}

func (s *stepper) runs(i int) bool { return !s.waits[i] && !s.ended[i] }

// grant gives a turn to whom c says, and returns who got one.
func (s *stepper) grant(c choice) (names string) {
	for i, h := range s.holders {
		if s.waits[i] && (c.both || i == c.who || !s.waits[1-i]) {
			names += h.who
		}
	}
	for i, h := range s.holders {
		if len(names) > 0 && (names == h.who || len(names) == 2) {
			s.waits[i] = false
			h.proceed <- struct{}{}
		}
	}
	return names
}
