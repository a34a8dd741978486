package batch

import (
	"fmt"
	"testing"
)

// BenchmarkRequest makes the largest possible request.
func BenchmarkRequest(b *testing.B) {
	parts := make([]*part, mostParts)
	for i := range parts {
		parts[i] = newPart(*enqueue(fmt.Sprintf("jobs/%d/", i)), 0, true)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := request(parts); err != nil {
			b.Fatal(err)
		}
	}
}
