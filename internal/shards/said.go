package shards

import (
	"encoding/json"
	"slices"
	"time"
)

// Said is what a planner's key says.
type Said struct {
	Planned int64     // the revision up to which everything is planned for, and written
	Poison  []Poison  // the shards that have failed on several workers, in the order of Until
	Held    []Penalty // the workers that get nothing yet because those before them died, in the order of the leases
	Doubles []Double  // the workers that gave way to others with the same ID, in the order of the leases
}

// Poison are shards that failed on several workers. Nobody is to have them before Until.
type Poison struct {
	Until  time.Time
	Shards Set
	Deaths bool // workers died with them
}

// A Penalty keeps all shards from a worker until Until.
type Penalty struct {
	Lease int64
	Until time.Time
}

// A Double is a worker whose place another with the same ID has taken.
type Double struct{ Lease, By int64 }

type (
	saidForm struct {
		Planned int64         `json:"planned"`
		Poison  []poisonForm  `json:"poison,omitempty"`
		Held    []penaltyForm `json:"held,omitempty"`
		Doubles [][2]int64    `json:"doubles,omitempty"`
	}
	poisonForm struct {
		Until  int64  `json:"until"` // in Unix seconds
		Shards []byte `json:"shards"`
		Deaths bool   `json:"deaths,omitempty"`
	}
	penaltyForm struct {
		Lease int64 `json:"lease"`
		Until int64 `json:"until"`
	}
)

// Encode is the value of the planner's key.
func (s Said) Encode() []byte {
	f := saidForm{Planned: s.Planned}
	for _, p := range s.Poison {
		f.Poison = append(f.Poison, poisonForm{p.Until.Unix(), p.Shards.Encode(), p.Deaths})
	}
	for _, p := range s.Held {
		f.Held = append(f.Held, penaltyForm{p.Lease, p.Until.Unix()})
	}
	for _, d := range s.Doubles {
		f.Doubles = append(f.Doubles, [2]int64{d.Lease, d.By})
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic("shards: planner: " + err.Error()) // numbers and bytes always marshal
	}
	return b
}

// DecodeSaid is the inverse of Encode, for n shards. What it cannot decode is left out.
func DecodeSaid(n int, value []byte) Said {
	var f saidForm
	if json.Unmarshal(value, &f) != nil {
		return Said{}
	}
	s := Said{Planned: f.Planned}
	for _, p := range f.Poison {
		if set, err := Decode(n, p.Shards); err == nil && set.Len() > 0 {
			s.Poison = append(s.Poison, Poison{time.Unix(p.Until, 0), set, p.Deaths})
		}
	}
	for _, p := range f.Held {
		s.Held = append(s.Held, Penalty{p.Lease, time.Unix(p.Until, 0)})
	}
	for _, d := range f.Doubles {
		s.Doubles = append(s.Doubles, Double{d[0], d[1]})
	}
	return s
}

// AllPoison are the shards that have failed on several workers.
func (s Said) AllPoison() (all Set) {
	for _, p := range s.Poison {
		for i := range p.Shards.All() {
			all.Add(i)
		}
	}
	return all
}

// Rest returns why shard i rests, or false if it does not.
func (s Said) Rest(i int) (Poison, bool) {
	at := slices.IndexFunc(s.Poison, func(p Poison) bool { return p.Shards.Has(i) })
	if at < 0 {
		return Poison{}, false
	}
	return s.Poison[at], true
}

// HeldUntil is until when a member gets nothing, or zero.
func (s Said) HeldUntil(lease int64) (until time.Time) {
	for _, p := range s.Held {
		if p.Lease == lease {
			until = p.Until
		}
	}
	return until
}
