package shards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// The bounds of a member key's content.
const (
	MaxWeight = 10_000
	MaxValue  = 1024
	MaxID     = 256
)

// KeysPerLease is how many shards have their keys on one lease at most (docs/decisions/many-keys.md).
const KeysPerLease = 500

// A Member is what a worker says of itself in its member key.
type Member struct {
	Weight  int    // its share relative to the others'; negative if it gets none; never 0
	Value   []byte // the caller's
	ID      string // the worker's place, which the next worker with this ID takes over; "" if it has none
	Leaving bool   // it gives up what it holds as soon as another worker waits for it
	Drained bool   // the same, because an operator wants it
	Health  Health // whether it can work at all, as far as it knows
	Cannot  Set    // the shards that it cannot take now
	Spared  Set    // those of them that have not failed: a work that was to end still runs, or the disk is full
	Coming  Set    // the shards in its wish for which it prepares
	Loads   []byte // what it tells of its shards' loads, as Loads.Encode has it; nothing if it measures none

	// Carriers are the leases, besides the one in the key's name, that the keys of its shards may be on. A
	// worker names a lease here before it puts a key on it.
	Carriers []int64
}

// Health is whether a worker can work on shards at all.
type Health uint8

const (
	Well  Health = iota
	Sick         // most of what it took has failed, so it gets nothing
	Trial        // it was sick, and gets one shard to find out whether it still is
)

// Equal reports whether m and o have the same value in a member key.
func (m Member) Equal(o Member) bool {
	return m.Weight == o.Weight && bytes.Equal(m.Value, o.Value) && m.ID == o.ID &&
		m.Leaving == o.Leaving && m.Drained == o.Drained && m.Health == o.Health &&
		m.Cannot.Equal(o.Cannot) && m.Spared.Equal(o.Spared) && m.Coming.Equal(o.Coming) &&
		slices.Equal(m.Carriers, o.Carriers) && bytes.Equal(m.Loads, o.Loads)
}

// form is the form of a member key's value.
type form struct {
	Weight  int    `json:"weight"`
	Value   []byte `json:"value,omitempty"`
	ID      string `json:"id,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	Health  Health `json:"sick,omitempty"`
	Cannot  []byte `json:"cannot,omitempty"`
	Spared  []byte `json:"spared,omitempty"`
	Coming  []byte `json:"coming,omitempty"`
	Loads   []byte `json:"loads,omitempty"`

	Carriers []string `json:"carriers,omitempty"`
}

// Encode is the value of the member key.
func (m Member) Encode() []byte {
	f := form{
		Weight: m.Weight, Value: m.Value, ID: m.ID, Leaving: m.Leaving, Drained: m.Drained, Health: m.Health,
		Cannot: m.Cannot.Encode(), Spared: m.Spared.Encode(), Coming: m.Coming.Encode(), Loads: m.Loads,
	}
	for _, lease := range m.Carriers {
		f.Carriers = append(f.Carriers, strconv.FormatInt(lease, 16))
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic("shards: member: " + err.Error()) // numbers and bytes always marshal
	}
	return b
}

// DecodeMember is the inverse of Encode, for a member that was started with n shards. It ignores what a
// later version may add, and does not look into Loads.
func DecodeMember(n int, value []byte) (m Member, err error) {
	var f form
	if err := json.Unmarshal(value, &f); err != nil {
		return Member{}, err
	}
	switch {
	case f.Weight == 0 || f.Weight > MaxWeight:
		return Member{}, fmt.Errorf("weight %d", f.Weight)
	case f.Health > Trial:
		return Member{}, fmt.Errorf("sick %d", f.Health)
	case len(f.Value) > MaxValue:
		return Member{}, fmt.Errorf("a value of %d bytes", len(f.Value))
	case len(f.ID) > MaxID:
		return Member{}, fmt.Errorf("an ID of %d bytes", len(f.ID))
	}
	m = Member{Weight: f.Weight, Value: f.Value, ID: f.ID, Leaving: f.Leaving, Drained: f.Drained, Health: f.Health, Loads: f.Loads}
	if m.Cannot, err = Decode(n, f.Cannot); err != nil {
		return Member{}, err
	}
	if m.Spared, err = Decode(n, f.Spared); err != nil {
		return Member{}, err
	}
	if m.Coming, err = Decode(n, f.Coming); err != nil {
		return Member{}, err
	}
	for _, hex := range f.Carriers {
		lease, err := strconv.ParseInt(hex, 16, 64)
		if err != nil {
			return Member{}, fmt.Errorf("carrier %q is no lease", hex)
		}
		m.Carriers = append(m.Carriers, lease)
	}
	return m, nil
}
