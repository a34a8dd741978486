// Package detached is the content of a lease.Handle: all that another process needs to take a
// detached session over, and its encoding as text.
//
// The text is one word of printable ASCII, fit for an environment variable or a file. It holds
// no secret. Parse refuses what no session can have written, so that a State which was parsed
// is as valid as one that was written.
package detached

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A State is a session as it was detached.
type State struct {
	Lease       int64
	Cluster     uint64
	TTL         time.Duration // as granted
	Key         string        // the session key
	Create, Mod int64         // its revisions
	Next        int64         // the number of the session's next entry
	Unsettled   []string      // keys of the entries that have to be undone
	Forfeit     []int64       // the numbers of those entries whose removal is no release
}

// form is the JSON inside the text. Keys are bytes.
type form struct {
	Lease     int64    `json:"lease"`
	Cluster   uint64   `json:"cluster"`
	Seconds   int64    `json:"ttl"`
	Key       []byte   `json:"key"`
	Create    int64    `json:"create"`
	Mod       int64    `json:"mod"`
	Next      int64    `json:"next"`
	Unsettled [][]byte `json:"unsettled,omitempty"`
	Forfeit   []int64  `json:"forfeit,omitempty"`
}

// prefix names the form.
const prefix = "pawl1."

// Text writes s. Equal states have equal texts.
func (s State) Text() string {
	f := form{s.Lease, s.Cluster, int64(s.TTL / time.Second), []byte(s.Key), s.Create, s.Mod, s.Next, nil, s.Forfeit}
	for _, key := range s.Unsettled {
		f.Unsettled = append(f.Unsettled, []byte(key))
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

func (f form) state() (State, error) {
	switch {
	case f.Lease <= 0, f.Cluster == 0, len(f.Key) == 0, f.Create <= 0, f.Mod < f.Create, f.Next <= 0, f.Seconds <= 0, f.Seconds > maxSeconds:
		return State{}, errors.New("a field is missing or out of bounds")
	}
	s := State{
		Lease: f.Lease, Cluster: f.Cluster, TTL: time.Duration(f.Seconds) * time.Second,
		Key: string(f.Key), Create: f.Create, Mod: f.Mod, Next: f.Next,
	}
	for _, key := range f.Unsettled {
		if len(key) == 0 {
			return State{}, errors.New("an unsettled key is empty")
		}
		s.Unsettled = append(s.Unsettled, string(key))
	}
	for i, n := range f.Forfeit {
		if n <= 0 || n >= f.Next || i > 0 && n <= f.Forfeit[i-1] {
			return State{}, errors.New("a forfeit entry is out of bounds, or out of order")
		}
	}
	if len(f.Forfeit) > 0 {
		s.Forfeit = f.Forfeit
	}
	return s, nil
}
