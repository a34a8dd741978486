package shards

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestLoadsAreDecodedAsTheyWereToldToWithinTheRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + r.IntN(2000)
		unit := math.Exp2(float64(r.IntN(200) - 100)) // messages a second, CPU seconds a second, bytes a day
		all := map[int]float64{}
		for range r.IntN(min(n, MaxTold) + 1) {
			all[r.IntN(n)] = unit * math.Exp(3*r.NormFloat64())
		}
		if len(all) > 0 {
			all[r.IntN(n)] = 0
		}
		heaviest := 0.0
		for _, x := range all {
			heaviest = max(heaviest, x)
		}
		l := loadsOf(all)
		got, err := DecodeLoads(n, l.Encode())
		require.NoError(t, err)
		for i := range n {
			x, told := got.Of(i)
			want, is := l.Of(i)
			require.Equal(t, is, told)
			require.InDelta(t, want, x, max(0.022*want, 2e-5*heaviest))
		}
	}
}

func TestAReportIsShort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n, of int, load func() float64) map[int]float64 {
		all := map[int]float64{}
		for _, i := range r.Perm(of)[:n] {
			all[i] = load()
		}
		return all
	}
	one := func() float64 { return 1 }
	any := func() float64 { return r.ExpFloat64() }
	for _, c := range []struct {
		name string
		all  map[int]float64
		most int // bytes
	}{
		{"none", nil, 0},
		{"8 of 64, scattered", some(8, 64, any), 19},
		{"20 of 1,000, scattered", some(20, 1000, any), 63},
		{"all of 500, equal", some(500, 500, one), 6},
		{"all are idle", some(64, 64, func() float64 { return 0 }), 5},
		{"100,000", some(100_000, 100_000, any), 2_400},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.LessOrEqual(t, len(loadsOf(c.all).Encode()), c.most)
		})
	}
}

func TestOfThousandsOfShardsTheHeaviestAreToldAndTheMeanOfTheOthers(t *testing.T) {
	all := map[int]float64{}
	for i := range 3 * MaxTold {
		all[i] = 1
	}
	all[7], all[700] = 100, 3
	l, err := DecodeLoads(3*MaxTold, loadsOf(all).Encode())
	require.NoError(t, err)
	assert.Len(t, l.By, MaxTold)
	for i, want := range map[int]float64{7: 100, 700: 3, 3*MaxTold - 1: 1} {
		x, told := l.Of(i)
		assert.True(t, told)
		assert.InDelta(t, want, x, 0.022*want)
	}
}

func TestWhatAreNoLoadsIsRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"a number without an end": {0x80},
		"no byte of the others":   {0},
		"absurdly heavy":          {0xff, 0xff, 0x7f, 0},
		"no load":                 {0, 0, 0},
		"the load is nothing":     {0, 0, 0, noLoad},
		"a shard outside":         {0, 0, 8 << 1, 1},
		"a run to the outside":    {0, 0, 6<<1 | 1, 1, 1},
		"an absurd run":           {0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1},
		"an absurd gap":           {0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeLoads(8, b)
			assert.ErrorIs(t, err, errLoads)
		})
	}
	_, err := DecodeLoads(8, []byte{0, 0, 6<<1 | 1, 0, 1})
	assert.NoError(t, err)
	run := []byte{0, 0, 1, 0xff, 0x03, 1} // of 513
	_, err = DecodeLoads(1000, run)
	assert.ErrorIs(t, err, errLoads)
}

// Reports that cannot be decoded are as good as none. The member stays.
func TestAMemberWhoseLoadsCannotBeDecodedIsAMember(t *testing.T) {
	p := newTroubled(t, 2)
	p.member(1, Member{Weight: 1, Loads: []byte{0x80}})
	assert.True(t, p.View.Members[1].There)
	assert.False(t, p.View.Members[1].Told.Any())
	assert.False(t, p.tells())
	p.member(1, Member{Weight: 1, Loads: Loads{By: map[int]float64{1: 5}}.Encode()})
	assert.True(t, p.tells())
	p.member(1, Member{Weight: 1})
	assert.False(t, p.tells())
}

func FuzzDecodeLoads(f *testing.F) {
	f.Add(Loads{By: map[int]float64{1: 5, 2: 5, 9: 0}, Others: 1, Some: true}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLoads(100, b)
		if err != nil {
			return
		}
		for i, x := range l.By {
			if i < 0 || i >= 100 || !valid(x) {
				t.Errorf("shard %d has %v", i, x)
			}
		}
		again, err := DecodeLoads(100, l.Encode())
		if err != nil || len(again.By) != len(l.By) {
			t.Errorf("%v, %v", again, err)
		}
	})
}
