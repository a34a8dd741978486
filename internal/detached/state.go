// Package detached is the content of a lease.Handle, which is all that another process needs to take a
// detached session over, and its encoding as text.
//
// The text is one word of printable ASCII, fit for an environment variable or a file. It contains no
// secret. Parse refuses what no session can have written, so that a parsed State is as valid as a
// written one.
package detached

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// A State is a session as it was detached.
type State struct {
	Lease       int64
	Cluster     uint64
	TTL         time.Duration // as granted, less what LockDelay adds
	LockDelay   time.Duration // whole milliseconds
	Key         string        // the session key
	Create, Mod int64         // its revisions
	Next        int64         // the number of the session's next entry
	ToRemove    []string      // keys of the entries that the successor has to remove
	Held        int64         // how many other entries there are, which the successor may resume; -1 if an older version did not say
	Lost        []int64       // the numbers of those entries that were held and not released, in order
	Kept        []Kept        // the entries whose keys have to stay for now, in order
	At          time.Time     // wall clock at which Kept was written, in milliseconds; zero without Kept
	Claim       string        // the nonce of the takeover, if it was already chosen; see session.Claim
}

// Kept is an entry whose keys have to stay for a time, even after its release.
type Kept struct {
	N    int64
	Left time.Duration // whole milliseconds, more than 0
}

// Stays is how long k's keys have to stay at now. A wall clock that was set back adds nothing.
func (s State) Stays(k Kept, now time.Time) time.Duration {
	return max(0, min(k.Left, k.Left-now.Sub(s.At)))
}

// form is the JSON inside the text. Keys are bytes.
type form struct {
	Lease    int64    `json:"lease"`
	Cluster  uint64   `json:"cluster"`
	Seconds  int64    `json:"ttl"`
	Delay    int64    `json:"delay,omitempty"` // milliseconds
	Key      []byte   `json:"key"`
	Create   int64    `json:"create"`
	Mod      int64    `json:"mod"`
	Next     int64    `json:"next"`
	Held     *int64   `json:"held,omitempty"`
	ToRemove [][]byte `json:"toRemove,omitempty"`
	Lost     []int64  `json:"lost,omitempty"`
	Kept     []kept   `json:"kept,omitempty"`
	At       int64    `json:"at,omitempty"` // Unix milliseconds
	Claim    string   `json:"nonce,omitempty"`
}

type kept struct {
	N    int64 `json:"n"`
	Left int64 `json:"ms"`
}

// prefix names the form.
const prefix = "pawl1."

// Text writes s. Equal states have equal texts.
func (s State) Text() string {
	f := form{
		Lease: s.Lease, Cluster: s.Cluster, Seconds: int64(s.TTL / time.Second), Delay: s.LockDelay.Milliseconds(), Key: []byte(s.Key), Create: s.Create, Mod: s.Mod, Next: s.Next, Lost: s.Lost, Claim: s.Claim,
	}
	if s.Held >= 0 {
		f.Held = &s.Held
	}
	for _, k := range s.Kept {
		f.Kept, f.At = append(f.Kept, kept{k.N, k.Left.Milliseconds()}), s.At.UnixMilli()
	}
	for _, key := range s.ToRemove {
		f.ToRemove = append(f.ToRemove, []byte(key))
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic("detached: " + err.Error()) // numbers and bytes always marshal
	}
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// Parse reads what Text wrote.
func Parse(text string) (State, error) {
	body, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return State{}, fmt.Errorf("want a text that begins with %q", prefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return State{}, err
	}
	var f form
	if err := json.Unmarshal(b, &f); err != nil {
		return State{}, err
	}
	return f.state()
}

// maxSeconds bounds a TTL so that its Duration does not overflow.
const maxSeconds = 9_000_000_000

// isBounded reports whether each number of f is one that a session can have.
func (f form) isBounded() bool {
	for _, x := range []struct{ n, least, most int64 }{
		{f.Lease, 1, math.MaxInt64}, {f.Create, 1, math.MaxInt64}, {f.Mod, f.Create, math.MaxInt64}, {f.Next, 1, math.MaxInt64},
		{f.Seconds, 1, maxSeconds}, {f.Delay, 0, maxSeconds * 1000}, {f.At, 0, maxSeconds * 1000},
	} {
		if x.n < x.least || x.n > x.most {
			return false
		}
	}
	return f.Cluster != 0
}

// areEntries reports whether ns are numbers of f's entries, in order.
func (f form) areEntries(ns []int64) bool {
	last := int64(0)
	for _, n := range ns {
		if n <= last || n >= f.Next {
			return false
		}
		last = n
	}
	return true
}

func (f form) state() (State, error) {
	switch {
	case !f.isBounded(), len(f.Key) == 0:
		return State{}, errors.New("a field is missing or out of bounds")
	case f.Held != nil && (*f.Held < 0 || *f.Held >= f.Next):
		return State{}, errors.New("more is held than there are entries")
	case !f.areEntries(f.Lost):
		return State{}, errors.New("a lost entry is out of bounds, or out of order")
	case (f.At > 0) != (len(f.Kept) > 0):
		return State{}, errors.New("the time of what is kept is missing, or of nothing")
	}
	s := State{
		Lease: f.Lease, Cluster: f.Cluster, TTL: time.Duration(f.Seconds) * time.Second, LockDelay: time.Duration(f.Delay) * time.Millisecond,
		Key: string(f.Key), Create: f.Create, Mod: f.Mod, Next: f.Next, Held: -1, Claim: f.Claim,
	}
	if f.Held != nil {
		s.Held = *f.Held
	}
	if len(f.Lost) > 0 { // nil rather than an empty list
		s.Lost = f.Lost
	}
	for _, key := range f.ToRemove {
		if len(key) == 0 {
			return State{}, errors.New("a key to remove is empty")
		}
		s.ToRemove = append(s.ToRemove, string(key))
	}
	var kept []int64
	for _, k := range f.Kept {
		if k.Left <= 0 || k.Left > maxSeconds*1000 {
			return State{}, errors.New("the time of an entry that is kept is out of bounds")
		}
		kept = append(kept, k.N)
		s.Kept, s.At = append(s.Kept, Kept{k.N, time.Duration(k.Left) * time.Millisecond}), time.UnixMilli(f.At).UTC()
	}
	if !f.areEntries(kept) {
		return State{}, errors.New("an entry that is kept is out of bounds, or out of order")
	}
	return s, nil
}
