package shards

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestASetIsWrittenAsRangesOrAsABitmapWhicheverIsShorter(t *testing.T) {
	for _, c := range []struct {
		shards []int
		want   string
	}{
		{nil, ""},
		{[]int{0}, "=0"},
		{[]int{0, 1, 2, 3, 7, 9, 10}, "#\x8f\x06"},
		{[]int{1000, 1001, 1002}, "=1000-1002"},
		{[]int{99_999}, "=99999"},
		{[]int{63, 64}, "=63-64"},
	} {
		s := SetOf(c.shards...)
		assert.Equal(t, c.want, string(s.Encode()))
		assert.Equal(t, c.shards, slices.Collect(s.All()))
		assert.Equal(t, len(c.shards), s.Len())
		got, err := Decode(100_000, s.Encode())
		require.NoError(t, err)
		assert.True(t, s.Equal(got))
	}
}

func TestAWishHasAtMostTwelveAndAHalfKilobytes(t *testing.T) {
	var odd, most, all Set
	for i := range 100_000 {
		if i%2 == 1 {
			odd.Add(i)
		}
		if i%97 != 0 {
			most.Add(i)
		}
		all.Add(i)
	}
	assert.Len(t, odd.Encode(), 12_501)
	assert.Less(t, len(most.Encode()), 12_501)
	assert.Equal(t, "=0-99999", string(all.Encode()))
}

func TestDecodingRefusesWhatNobodyCanHaveWritten(t *testing.T) {
	for _, bad := range []string{
		"0-3", "=", "=0-", "=-3", "=3-0", "=0,0", "=0-3,2", "=0-64", "=64", "=+1", "=01", "=0-3,", "=0,1", "=99999999999999999999", "= 1", "=1\n",
		"#", "#\x00", "#\x01\x00", "#\x00\x00\x00\x00\x00\x00\x00\x00\x01", "x", "\x00",
	} {
		_, err := Decode(64, []byte(bad))
		assert.Error(t, err, "%q", bad)
	}
	_, err := Decode(64, make([]byte, 1<<20))
	assert.ErrorContains(t, err, "1048576 bytes")
	s, err := Decode(64, []byte("=0-63"))
	require.NoError(t, err)
	assert.Equal(t, 64, s.Len())
}

func TestSetsWithEmptyWordsAreEqualToThoseWithout(t *testing.T) {
	s := SetOf(1, 500)
	s.Remove(500)
	s.Remove(9000)
	assert.True(t, s.Equal(SetOf(1)))
	assert.False(t, s.Equal(SetOf(2)))
	assert.Equal(t, SetOf(1).Encode(), s.Encode())
	c := s.Clone()
	c.Add(3)
	assert.False(t, s.Has(3))
	assert.False(t, Set(nil).Has(7))
}

func TestEncodingAndDecodingAreInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(300)
		var s Set
		for i, full := 0, r.Float64(); i < n; i++ {
			if r.Float64() < full {
				s.Add(i)
			}
		}
		got, err := Decode(n, s.Encode())
		require.NoError(t, err, "%q", s.Encode())
		require.True(t, s.Equal(got))
	}
}

// Whatever Decode accepts encodes to the same value.
func FuzzDecodingRefusesOrIsExact(f *testing.F) {
	for _, value := range []string{"", "=0", "=0-3,7", "#\x8f\x06", "=99999", "#"} {
		f.Add(100, []byte(value))
	}
	f.Fuzz(func(t *testing.T, n int, value []byte) {
		n = max(n%100_001, 1)
		s, err := Decode(n, value)
		if err != nil {
			return
		}
		assert.Equal(t, string(value), string(s.Encode()))
		for i := range s.All() {
			require.True(t, i >= 0 && i < n)
		}
	})
}
