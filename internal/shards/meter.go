package shards

import (
	"maps"
	"math"
	"slices"
	"time"
)

// How a Meter judges samples, and when it tells anew.
const (
	jump      = 1.4  // two samples in a row that are so far above the average, or below it, are a change
	smoothing = 16   // samples in an average
	offOne    = 1.5  // how far off a shard's load may be from what was told
	ofWeight  = 20   // unless it is less than such a part of the worker's sum
	offAll    = 0.05 // how far off the sum may be
)

// A Meter averages the loads of one worker's shards, and decides what the member key tells of them. The
// caller samples them every Every.
type Meter struct {
	TTL time.Duration

	readings map[int]*reading
	last     time.Time       // the last samples
	told     map[int]float64 // what was told last, not rounded
	encoded  []byte
	toldAt   time.Time
}

// reading is what is known of one shard's load.
type reading struct {
	since    time.Time // the first sample
	at       time.Time // the last one
	avg, odd float64
	beyond   int // whether the last sample was a jump up (1) or down (-1), to odd
}

// NewMeter makes a Meter of a worker whose session has this TTL.
func NewMeter(ttl time.Duration) *Meter {
	m := &Meter{TTL: ttl}
	m.Reset()
	return m
}

// Reset forgets everything, because the worker holds nothing any more.
func (m *Meter) Reset() {
	m.readings, m.told, m.encoded = map[int]*reading{}, nil, nil
	m.last, m.toldAt = time.Time{}, time.Time{}
}

// Every is how often the loads are to be sampled.
func (m *Meter) Every() time.Duration { return max(time.Second, m.TTL/8) }

// valid reports whether x can be a load.
func valid(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// Sampled records the loads of the held shards. One that is missing, or is no load, keeps what it had for
// a TTL.
func (m *Meter) Sampled(now time.Time, held Set, loads map[int]float64) {
	m.last = now
	for i := range m.readings {
		if !held.Has(i) {
			delete(m.readings, i)
		}
	}
	for i, x := range loads {
		if !held.Has(i) || !valid(x) {
			continue
		}
		r := m.readings[i]
		if r == nil {
			r = &reading{since: now, avg: x}
			m.readings[i] = r
		}
		r.at = now
		r.sample(x)
	}
	m.tell(now)
}

// sample takes one sample into account.
func (r *reading) sample(x float64) {
	was := r.beyond
	switch r.beyond = 0; {
	case x > r.avg*jump:
		r.beyond = 1
	case x < r.avg/jump:
		r.beyond = -1
	}
	if r.beyond != 0 && r.beyond == was { // a change is believed when it is seen twice
		r.avg, r.beyond = (x+r.odd)/2, 0
		return
	}
	r.odd = x
	r.avg += (x - r.avg) / smoothing
}

// known are the averages of the shards that have been held for long enough, and were sampled lately.
func (m *Meter) known(now time.Time) map[int]float64 {
	all := map[int]float64{}
	for i, r := range m.readings {
		if r.at.Sub(r.since) >= m.TTL/2 && now.Sub(r.at) <= m.TTL {
			all[i] = r.avg
		}
	}
	return all
}

// tell decides whether to tell all loads anew.
func (m *Meter) tell(now time.Time) {
	if now.Sub(m.toldAt) < m.TTL/4 {
		return
	}
	if known := m.known(now); m.off(known) {
		m.told, m.encoded, m.toldAt = known, loadsOf(known).Encode(), now
	}
}

// off reports whether these are too far from what was told.
func (m *Meter) off(known map[int]float64) bool {
	sum, was := 0.0, 0.0
	for _, i := range slices.Sorted(maps.Keys(known)) {
		told, is := m.told[i]
		if !is {
			return true
		}
		sum, was = sum+known[i], was+told
	}
	for i, r := range m.readings {
		if _, told := m.told[i]; told && r.at.Before(m.last.Add(-m.TTL)) {
			return true // its load is not known any more
		}
	}
	for i, x := range known {
		if told := m.told[i]; (x > told*offOne || x < told/offOne) && max(x, told) > sum/ofWeight {
			return true
		}
	}
	return math.Abs(sum-was) > offAll*was
}

// Sum is the load of all shards, as far as it is known.
func (m *Meter) Sum() (sum float64) {
	for _, i := range slices.Sorted(maps.Keys(m.readings)) {
		sum += m.readings[i].avg
	}
	return sum
}

// Told is what the member key tells. It is nothing if there was no sample for a TTL.
func (m *Meter) Told(now time.Time) []byte {
	if now.Sub(m.last) > m.TTL {
		m.told, m.encoded = nil, nil
	}
	return m.encoded
}
