package fencing_test

import (
	"testing"

	"github.com/pawl-locks/pawl/fencing"
)

// The cost of Admit for a known resource, called by all processors at once.
func BenchmarkGateAdmit(b *testing.B) {
	var g fencing.Gate
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = g.Admit("jobs/42", 57)
		}
	})
}
