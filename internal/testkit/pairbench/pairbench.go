// Package pairbench measures what a guard adds to a bare write. It alternates between both, so that other
// work on the machine disturbs both alike, and reports the median of each. The metrics are WAY-ns,
// nanoseconds for one write.
package pairbench

import (
	"slices"
	"testing"
	"time"
)

// A Way is one of the ways to do something. Its name has no spaces.
type Way struct {
	Name string
	Do   func() error
}

// Run does all ways in each iteration of b, alternately forwards and backwards.
func Run(b *testing.B, ways ...Way) {
	b.Helper()
	took := make([][]time.Duration, len(ways))
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			if round%2 == 1 {
				i = len(ways) - 1 - i
			}
			start := time.Now()
			if err := ways[i].Do(); err != nil {
				b.Fatalf("%s: %v", ways[i].Name, err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of all ways says nothing
	for i, w := range ways {
		b.ReportMetric(median(took[i]), w.Name+"-ns")
	}
}

func median(all []time.Duration) float64 {
	slices.Sort(all)
	n := len(all)
	return float64(all[(n-1)/2]+all[n/2]) / 2
}
