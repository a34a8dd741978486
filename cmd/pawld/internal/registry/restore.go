package registry

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Saved is a session as it is saved for the next process.
type Saved struct {
	ID, Identity string
	TTL          time.Duration
	Provisional  bool // no Acquire has set TTL yet
	Ended        bool
	Rows         []SavedRow
}

// A SavedRow is a held row, one whose release is not decided yet, or a remembered one that has ended.
type SavedRow struct {
	Request string
	Params  Params
	State   State
	Why     error         // if Lost
	Left    time.Duration // of Params.MaxHold
	Holding Holding       // if Held or Releasing
}

// Save returns everything except the positions, which are given up, because their clients poll
// again, and are enqueued again.
func (t *Registry) Save(now clock.Instant) (all []Saved) {
	t.advance(now)
	for _, s := range t.sessions {
		saved := Saved{ID: s.id, Identity: s.identity, TTL: s.ttl, Provisional: s.provisional, Ended: s.ended}
		for _, r := range s.rows {
			switch r.state {
			case Held, Releasing, Released, Lost, Left:
				left := r.acquired.Add(r.params.MaxHold).Sub(now)
				saved.Rows = append(saved.Rows, SavedRow{r.id, r.params, r.state, r.why, left, r.holding})
			}
		}
		all = append(all, saved)
	}
	return all
}

// Restore adds what a predecessor saved, and gives every session its whole TTL again. What its
// client still believes is shorter.
func (t *Registry) Restore(all []Saved, now clock.Instant) {
	for _, saved := range all {
		s := &session{id: saved.ID, identity: saved.Identity, ttl: saved.TTL, provisional: saved.Provisional, ended: saved.Ended, expiry: now.Add(saved.TTL), rows: make(map[string]*row), live: make(map[string]*row)}
		t.sessions[s.id] = s
		for _, r := range saved.Rows {
			x := &row{id: r.Request, params: r.Params, state: r.State, why: r.Why, polled: now, ended: now, sent: true}
			s.rows[x.id] = x
			if r.State != Held && r.State != Releasing {
				s.past(x)
				continue
			}
			s.live[x.id] = x
			x.acquired, x.holding = now.Add(r.Left-r.Params.MaxHold), r.Holding
			s.most++
			t.count(s, x)
		}
	}
}
