package pairbench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestMedianIsTheMiddleOrTheMeanOfBothMiddles(t *testing.T) {
	assert.InDelta(t, 2, median([]time.Duration{9, 1, 2}), 0)
	assert.InDelta(t, 2.5, median([]time.Duration{9, 3, 1, 2}), 0)
	assert.InDelta(t, 7, median([]time.Duration{7}), 0)
}

func TestEachWayIsDoneEquallyOftenAndTimedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fast, slow int
		r := testing.Benchmark(func(b *testing.B) {
			Run(b,
				Way{"fast", func() error { fast++; time.Sleep(time.Millisecond); return nil }},
				Way{"slow", func() error { slow++; time.Sleep(5 * time.Millisecond); return nil }})
		})
		assert.Equal(t, fast, slow)
		assert.Positive(t, slow)
		assert.InDelta(t, 1e6, r.Extra["fast-ns"], 0)
		assert.InDelta(t, 5e6, r.Extra["slow-ns"], 0)
	})
}
