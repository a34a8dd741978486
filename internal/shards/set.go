package shards

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
)

// A Set is a set of shards, with a bit for each. The zero Set is empty. A Set that is longer than
// needed is equal to one that is not.
type Set []uint64

// SetOf makes a Set.
func SetOf(shards ...int) (s Set) {
	for _, i := range shards {
		s.Add(i)
	}
	return s
}

// Has reports whether shard i is in s.
func (s Set) Has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 != 0 }

// Add adds shard i.
func (s *Set) Add(i int) {
	if grow := i/64 + 1 - len(*s); grow > 0 {
		*s = append(*s, make([]uint64, grow)...)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Set adds shard i, or removes it.
func (s *Set) Set(i int, in bool) {
	if in {
		s.Add(i)
	} else {
		s.Remove(i)
	}
}

// Remove removes shard i.
func (s Set) Remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// made is the Set of these words, without the empty ones at its end. An empty one allocates nothing.
func made(n int, word func(j int) uint64) (s Set) {
	for n > 0 && word(n-1) == 0 {
		n--
	}
	if n > 0 {
		s = make(Set, n)
	}
	for j := range s {
		s[j] = word(j)
	}
	return s
}

// word is the part of s from shard 64*j on.
func (s Set) word(j int) uint64 {
	if j < len(s) {
		return s[j]
	}
	return 0
}

// less is word without what is in one of the others.
func (s Set) less(j int, others []Set) uint64 {
	w := s.word(j)
	for _, t := range others {
		w &^= t.word(j)
	}
	return w
}

// Without returns the shards in s that are in none of the others.
func (s Set) Without(others ...Set) Set {
	return made(len(s), func(j int) uint64 { return s.less(j, others) })
}

// And returns the shards that are both in s and in t.
func (s Set) And(t Set) Set {
	return made(len(s), func(j int) uint64 { return s[j] & t.word(j) })
}

// Or returns the shards that are in s, or in t.
func (s Set) Or(t Set) Set {
	return made(max(len(s), len(t)), func(j int) uint64 { return s.word(j) | t.word(j) })
}

// Len is how many shards are in s.
func (s Set) Len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the shards in s in ascending order. s may be changed meanwhile.
func (s Set) All() iter.Seq[int] { return s.But() }

// But is All without the shards that are in one of the others.
func (s Set) But(others ...Set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for j := range s {
			for w := s.less(j, others); w != 0; w &= w - 1 {
				if !yield(j*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// trimmed is s without the empty words at its end.
func (s Set) trimmed() Set {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	return s
}

// Equal reports whether s and t have the same shards.
func (s Set) Equal(t Set) bool { return slices.Equal(s.trimmed(), t.trimmed()) }

// Clone returns a copy.
func (s Set) Clone() Set { return slices.Clone(s) }

// The first byte of an encoded Set says which form follows: ranges, as in "=0-3,7,9-12", or a
// bitmap, the lowest shard in the lowest bit of the first byte.
const (
	ofRanges = '='
	ofBitmap = '#'
)

// Encode is the value of a wish. It is nothing for the empty Set, and otherwise ranges, or a bitmap if
// that is shorter. It has at most one byte more than n/8.
func (s Set) Encode() []byte {
	s = s.trimmed()
	if len(s) == 0 {
		return nil
	}
	bitmap := []byte{ofBitmap}
	for _, w := range s {
		for range 8 {
			bitmap = append(bitmap, byte(w))
			w >>= 8
		}
	}
	bitmap = bytes.TrimRight(bitmap, "\x00")
	ranges := []byte{ofRanges}
	for from := range s.All() {
		if from > 0 && s.Has(from-1) {
			continue
		}
		to := from
		for s.Has(to + 1) {
			to++
		}
		if len(ranges) > 1 {
			ranges = append(ranges, ',')
		}
		ranges = strconv.AppendInt(ranges, int64(from), 10)
		if to > from {
			ranges = strconv.AppendInt(append(ranges, '-'), int64(to), 10)
		}
		if len(ranges) > len(bitmap) {
			return bitmap
		}
	}
	return ranges
}

// Decode is the inverse of Encode for shards 0 to n-1. It refuses what Encode cannot have made.
func Decode(n int, value []byte) (s Set, err error) {
	switch {
	case len(value) == 0:
		return nil, nil
	case len(value) > 2+n/8:
		return nil, fmt.Errorf("%d bytes for %d shards", len(value), n)
	case value[0] == ofBitmap:
		s = bitmap(value[1:])
	case value[0] == ofRanges:
		if s, err = ranges(n, value[1:]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown form %q", value[0])
	}
	if t := s.trimmed(); len(t) > 0 && (len(t)-1)*64+bits.Len64(t[len(t)-1]) > n {
		return nil, fmt.Errorf("a shard outside of %d", n)
	}
	if !bytes.Equal(s.Encode(), value) {
		return nil, errors.New("not in the one form for these shards")
	}
	return s, nil
}

func bitmap(b []byte) (s Set) {
	s = make(Set, (len(b)+7)/8)
	for i, c := range b {
		s[i/8] |= uint64(c) << (i % 8 * 8)
	}
	return s
}

func ranges(n int, b []byte) (s Set, err error) {
	next := 0
	for part := range bytes.SplitSeq(b, []byte{','}) {
		first, last, several := bytes.Cut(part, []byte{'-'})
		from, err := strconv.Atoi(string(first))
		if err != nil {
			return nil, err
		}
		to := from
		if several {
			if to, err = strconv.Atoi(string(last)); err != nil {
				return nil, err
			}
		}
		if from < next || to < from || to >= n {
			return nil, fmt.Errorf("range %q of %d shards", part, n)
		}
		for i := from; i <= to; i++ {
			s.Add(i)
		}
		next = to + 1
	}
	return s, nil
}
