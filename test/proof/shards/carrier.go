package shards

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/shards"
)

// carrier is a session of a worker, besides its member's, with the keys of some of its shards.
type carrier struct {
	lease     int64
	announced bool
}

func (w *worker) carrier(lease int64) *carrier {
	for _, c := range w.carriers {
		if c.lease == lease {
			return c
		}
	}
	return nil
}

// roomy is a lease that has room for another shard's keys, or 0 if there is none yet.
func (w *worker) roomy() int64 {
	if w.hasRoom(w.lease) {
		return w.lease
	}
	for _, c := range w.carriers {
		if w.hasRoom(c.lease) {
			if c.announced || w.s.Rules.AnnounceLate {
				return c.lease
			}
			return 0
		}
	}
	w.s.leases++
	w.carriers = append(w.carriers, &carrier{lease: w.s.leases})
	if !w.s.Rules.AnnounceLate {
		w.name()
	} else {
		lease := w.s.leases
		w.s.after(5*ttl, func() {
			if w.alive && w.carrier(lease) != nil {
				w.name()
			}
		})
	}
	return 0
}

func (w *worker) hasRoom(lease int64) bool {
	n := 0
	for _, of := range []map[int]*attempt{w.attempts, w.holds} {
		for _, a := range of {
			if a.lease == lease && a.key != "" {
				n++
			}
		}
	}
	return w.s.PerLease == 0 || n < w.s.PerLease
}

// name has the member key name the carriers.
func (w *worker) name() {
	w.Self.Carriers = nil
	for _, c := range w.carriers {
		w.Self.Carriers = append(w.Self.Carriers, c.lease)
	}
}

// announced records what a member key that was written says.
func (w *worker) announced(value string) {
	m, err := shards.DecodeMember(w.s.N, []byte(value))
	if err != nil {
		w.s.fail("a member key: %v", err)
	}
	for _, c := range w.carriers {
		c.announced = c.announced || slices.Contains(m.Carriers, c.lease)
	}
}

// closeCarriers ends all carriers, because their member has ended.
func (w *worker) closeCarriers() {
	for _, c := range w.carriers {
		w.s.expire(c.lease, time.Second)
	}
	w.carriers, w.Self.Carriers = nil, nil
}

// CutCarrier ends one carrier alone. Its shards are lost, and its keys go later.
func (w *worker) CutCarrier() {
	if len(w.carriers) == 0 || w.lease == 0 {
		return
	}
	s := w.s
	at := s.IntN(len(w.carriers))
	dead := w.carriers[at].lease
	s.tell("carrier %x of %x ends", dead, w.lease)
	w.carriers = slices.Delete(w.carriers, at, at+1)
	w.name()
	for i, a := range w.attempts {
		if a.lease == dead {
			delete(w.attempts, i)
			w.Refused(s.time(), i, false)
		}
	}
	for i, a := range w.holds {
		if a.lease == dead {
			w.lose(i)
		}
	}
	s.expire(dead, ttl)
	w.step()
}

// expire removes the keys of a lease within a time.
func (s *Sim) expire(lease int64, within time.Duration) {
	s.after(rand0(s, within), func() { s.remove(s.on(lease)...) })
}
