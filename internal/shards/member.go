package shards

import (
	"encoding/json"
	"fmt"
)

// The bounds of what a member says of itself.
const (
	MaxWeight = 10_000
	MaxValue  = 1024
)

// A Member is what a worker says of itself.
type Member struct {
	Weight  int    // its share beside the others'; negative: it gets none. Never 0
	Value   []byte // the caller's
	Leaving bool   // it gives up what it has to whoever waits
	Drained bool   // likewise, because an operator wants it so
	Cannot  Set    // the shards that it cannot take now
	Coming  Set    // the shards that it is wished, and prepares for
}

// form is the form of a member key's value.
type form struct {
	Weight  int    `json:"weight"`
	Value   []byte `json:"value,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	Cannot  []byte `json:"cannot,omitempty"`
	Coming  []byte `json:"coming,omitempty"`
}

// Encode is the value of the member key.
func (m Member) Encode() []byte {
	b, err := json.Marshal(form{m.Weight, m.Value, m.Leaving, m.Drained, m.Cannot.Encode(), m.Coming.Encode()})
	if err != nil {
		panic("shards: member: " + err.Error()) // numbers and bytes always marshal
	}
	return b
}

// DecodeMember is the inverse of Encode, for a member that shares out n shards. It ignores what a
// later version may add.
func DecodeMember(n int, value []byte) (m Member, err error) {
	var f form
	if err := json.Unmarshal(value, &f); err != nil {
		return Member{}, err
	}
	switch {
	case f.Weight == 0 || f.Weight > MaxWeight:
		return Member{}, fmt.Errorf("weight %d", f.Weight)
	case len(f.Value) > MaxValue:
		return Member{}, fmt.Errorf("a value of %d bytes", len(f.Value))
	}
	m = Member{Weight: f.Weight, Value: f.Value, Leaving: f.Leaving, Drained: f.Drained}
	if m.Cannot, err = Decode(n, f.Cannot); err != nil {
		return Member{}, err
	}
	if m.Coming, err = Decode(n, f.Coming); err != nil {
		return Member{}, err
	}
	return m, nil
}
