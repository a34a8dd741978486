package shards

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// metered is a Meter of a worker with some shards.
type metered struct {
	*Meter
	t    *testing.T
	now  time.Time
	held Set
	was  string
}

func newMetered(t *testing.T, held ...int) *metered {
	return &metered{Meter: NewMeter(16 * time.Second), t: t, now: time.Unix(1_000_000, 0), held: SetOf(held...)}
}

// samples takes n samples, every one of these loads, and counts the reports.
func (m *metered) samples(n int, loads map[int]float64) (reports int) {
	for range n {
		m.now = m.now.Add(m.Every())
		m.Sampled(m.now, m.held, loads)
		if told := string(m.Told(m.now)); told != m.was {
			m.was = told
			reports++
		}
	}
	return reports
}

// load is what is told of shard i; -1 if nothing is.
func (m *metered) load(i int) float64 {
	l, err := DecodeLoads(64, m.Told(m.now))
	require.NoError(m.t, err)
	if x, told := l.Of(i); told {
		return x
	}
	return -1
}

func (m *metered) about(want float64, i int) {
	m.t.Helper()
	assert.InDelta(m.t, want, m.load(i), 0.025*want)
}

func TestAShardIsToldWhenItWasHeldForHalfATTL(t *testing.T) {
	m := newMetered(t, 1)
	require.Equal(t, 2*time.Second, m.Every())
	assert.Zero(t, m.samples(4, map[int]float64{1: 10, 2: 7}))
	assert.Equal(t, 1, m.samples(1, map[int]float64{1: 10, 2: 7}))
	m.about(10, 1)
	assert.Equal(t, -1.0, m.load(2), "it is not held")
	m.held.Add(3)
	m.samples(4, map[int]float64{1: 10, 3: 20})
	assert.Equal(t, -1.0, m.load(3))
	m.samples(1, map[int]float64{1: 10, 3: 20})
	m.about(20, 3)
}

func TestAChangeIsBelievedWhenItIsSeenTwice(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples []float64
		want    float64
	}{
		{"one spike", []float64{40}, 10},
		{"two spikes apart", []float64{40, 10, 40, 10}, 10},
		{"up", []float64{40, 40}, 40},
		{"up, the mean of two", []float64{30, 50}, 40},
		{"down", []float64{5, 5}, 5},
		{"to nothing", []float64{0, 0}, 0},
		{"up and down", []float64{40, 1}, 10},
		{"a swing of 20 %", []float64{12, 12, 12, 12}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMetered(t, 1)
			m.samples(20, map[int]float64{1: 10})
			for _, x := range c.samples {
				m.samples(1, map[int]float64{1: x})
			}
			r := m.readings[1]
			assert.InDelta(t, c.want, r.avg, max(0.4*c.want, 0.01))
			if c.want != 10 {
				assert.InDelta(t, c.want, r.avg, 0.01*c.want)
				m.samples(2, map[int]float64{1: c.want})
				m.about(c.want, 1)
			}
		})
	}
}

func TestAllIsToldAnewWhenItIsOff(t *testing.T) {
	steady := map[int]float64{1: 100, 2: 100, 3: 4}
	for _, c := range []struct {
		name string
		now  map[int]float64
		want int
	}{
		{"nothing changes", steady, 0},
		{"one that weighs little doubles", map[int]float64{1: 100, 2: 100, 3: 8}, 0},
		{"one that weighs little becomes heavy", map[int]float64{1: 100, 2: 100, 3: 40}, 1},
		{"two trade places", map[int]float64{1: 160, 2: 40, 3: 4}, 1},
		{"the sum", map[int]float64{1: 150, 2: 100, 3: 4}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMetered(t, 1, 2, 3)
			m.samples(20, steady)
			assert.Equal(t, c.want, m.samples(4, c.now))
			if c.want > 0 {
				m.about(c.now[1], 1)
			}
		})
	}
}

func TestAReportIsFollowedByNoneForAQuarterOfATTL(t *testing.T) {
	m := newMetered(t, 1)
	m.samples(20, map[int]float64{1: 10})
	reports := 0
	for i := range 100 {
		reports += m.samples(1, map[int]float64{1: []float64{100, 100, 10, 10}[i%4]})
	}
	assert.LessOrEqual(t, reports, 50, "of 100 samples, 2 s apart")
	assert.Greater(t, reports, 30)
}

func TestALoadThatIsMissingIsKeptForATTL(t *testing.T) {
	nan := math.NaN()
	for name, x := range map[string]map[int]float64{
		"absent": {2: 5}, "not a number": {1: nan, 2: 5}, "infinite": {1: math.Inf(1), 2: 5}, "negative": {1: -1, 2: 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t, 1, 2)
			m.samples(20, map[int]float64{1: 10, 2: 5})
			assert.Zero(t, m.samples(8, x))
			m.about(10, 1)
			assert.Equal(t, 1, m.samples(2, x))
			assert.Equal(t, -1.0, m.load(1))
			m.about(5, 2)
		})
	}
}

func TestAWorkerWithoutSamplesForATTLTellsNothing(t *testing.T) {
	m := newMetered(t, 1)
	m.samples(20, map[int]float64{1: 10})
	m.now = m.now.Add(m.TTL)
	m.about(10, 1)
	m.now = m.now.Add(time.Millisecond)
	assert.Empty(t, m.Told(m.now))
	m.samples(1, map[int]float64{1: 10})
	m.about(10, 1)
}

func TestTheRestOfLoadsIsToldInFewBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 20} {
		m := newMetered(t)
		for i := range n {
			m.held.Add(3 * i)
		}
		bytes := 0
		for range 8 * 100 { // a hundred TTLs
			loads := map[int]float64{}
			for i := range m.held.All() {
				loads[i] = float64(i+1) * (0.8 + 0.4*r.Float64())
			}
			bytes += m.samples(1, loads) * len(m.was)
		}
		assert.LessOrEqual(t, bytes/100, 20, "%d shards", n)
	}
}
