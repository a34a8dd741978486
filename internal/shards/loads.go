package shards

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// MaxTold is of how many shards a worker tells the loads by themselves.
const MaxTold = 512

// Loads are the loads of the shards of one worker, as its member key tells them. The zero Loads tells
// nothing.
type Loads struct {
	By     map[int]float64 // by shard; the heaviest, if there are more than MaxTold
	Others float64         // of each other shard that the worker has
	Some   bool            // Others is told
}

// Of is the load of shard i, which the worker has, or false if it does not tell it.
func (l Loads) Of(i int) (load float64, told bool) {
	if load, told = l.By[i]; told {
		return load, true
	}
	return l.Others, l.Some
}

// Any reports whether l tells anything.
func (l Loads) Any() bool { return l.Some || len(l.By) > 0 }

// A load has one byte: how many sixteenths of a power of two it is below the heaviest of the report. So it
// is rounded to within 2.2 %.
const (
	noLoad   = 0   // there is none
	heaviest = 1   // the heaviest; each further step is a sixteenth of a power of two less
	idle     = 255 // 0, or less than a fifty-thousandth of the heaviest
	perTwo   = 16
	maxTop   = 1100 * perTwo // what a float64 can have
)

// Encode is the form of l in a member key: the heaviest load, the byte of the others, and runs of shards
// in ascending order. A run is how many shards are left out before it, how many it has if it has several,
// and their byte.
func (l Loads) Encode() []byte {
	if !l.Any() {
		return nil
	}
	top := math.MinInt
	for _, x := range l.By {
		top = max(top, steps(x))
	}
	if l.Some {
		top = max(top, steps(l.Others))
	}
	if top == math.MinInt { // all are idle
		top = 0
	}
	b := binary.AppendVarint(nil, int64(top))
	if l.Some {
		b = append(b, below(top, l.Others))
	} else {
		b = append(b, noLoad)
	}
	all := slices.Sorted(maps.Keys(l.By))
	next := 0
	for at := 0; at < len(all); {
		from, code := all[at], below(top, l.By[all[at]])
		run := 1
		for at+run < len(all) && all[at+run] == from+run && below(top, l.By[from+run]) == code {
			run++
		}
		if run == 1 {
			b = binary.AppendUvarint(b, uint64(from-next)<<1)
		} else {
			b = binary.AppendUvarint(b, uint64(from-next)<<1|1)
			b = binary.AppendUvarint(b, uint64(run-2))
		}
		b = append(b, code)
		next, at = from+run, at+run
	}
	return b
}

// steps is the logarithm of x in sixteenths of a power of two, rounded.
func steps(x float64) int {
	if x <= 0 {
		return math.MinInt
	}
	return int(math.Round(perTwo * math.Log2(x)))
}

// below is the byte of load x.
func below(top int, x float64) byte {
	e := steps(x)
	if e == math.MinInt || top-e >= idle-heaviest {
		return idle
	}
	return byte(heaviest + top - e)
}

// loadOf is the inverse of below.
func loadOf(top int, code byte) float64 {
	if code == idle {
		return 0
	}
	return math.Exp2(float64(top-int(code-heaviest)) / perTwo)
}

// errLoads says that loads cannot be decoded.
var errLoads = errors.New("not loads")

// DecodeLoads is the inverse of Encode for shards 0 to n-1, but for the rounding.
func DecodeLoads(n int, b []byte) (l Loads, err error) {
	if len(b) == 0 {
		return Loads{}, nil
	}
	top, size := binary.Varint(b)
	if size <= 0 || len(b) == size || top > maxTop || top < -maxTop {
		return Loads{}, errLoads
	}
	if code := b[size]; code != noLoad {
		l.Others, l.Some = loadOf(int(top), code), true
	}
	l.By = map[int]float64{}
	next := 0
	for b = b[size+1:]; len(b) > 0; b = b[1:] {
		skip, run := uint64(0), uint64(1)
		if skip, b, err = uvarint(b); err == nil && skip&1 == 1 {
			run, b, err = uvarint(b)
			run = min(run, uint64(n)) + 2
		}
		switch {
		case err != nil:
			return Loads{}, err
		case len(b) == 0 || b[0] == noLoad:
			return Loads{}, errLoads
		case skip>>1 > uint64(n) || run > uint64(n) || uint64(next)+skip>>1+run > uint64(n):
			return Loads{}, fmt.Errorf("%w: a shard outside of %d", errLoads, n)
		case uint64(len(l.By))+run > MaxTold:
			return Loads{}, fmt.Errorf("%w: more than %d", errLoads, MaxTold)
		}
		from := next + int(skip>>1)
		for next = from; next < from+int(run); next++ {
			l.By[next] = loadOf(int(top), b[0])
		}
	}
	return l, nil
}

// uvarint takes a number from the beginning of b.
func uvarint(b []byte) (x uint64, rest []byte, err error) {
	x, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, errLoads
	}
	return x, b[size:], nil
}

// loadsOf are the loads to tell of these, of which the heaviest are told by themselves.
func loadsOf(all map[int]float64) Loads {
	if len(all) <= MaxTold {
		return Loads{By: all}
	}
	shards := slices.SortedFunc(maps.Keys(all), func(a, b int) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	l := Loads{By: make(map[int]float64, MaxTold), Some: true}
	for _, i := range shards[:MaxTold] {
		l.By[i] = all[i]
	}
	for _, i := range shards[MaxTold:] {
		l.Others += all[i] / float64(len(shards)-MaxTold)
	}
	return l
}
