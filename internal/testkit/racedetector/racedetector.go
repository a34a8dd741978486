// Package racedetector says whether a test runs under the race detector, which takes several
// times the time and memory, and which cells of its table it then runs.
package racedetector

import (
	"hash/crc32"
	"testing"
)

// Samples reports whether a cell of a table runs: all do, but with the race detector and
// -short, where a quarter does. The choice rests on the cell's name alone. What would race is
// the code under a table, which is the same for many of its cells; what each cell asserts is
// asserted by the runs without the detector. "make race" runs all cells but a few that are left
// out wherever the detector is on.
func Samples(cell string) bool { return !Short() || crc32.ChecksumIEEE([]byte(cell))%4 == 0 }

// Sample skips the test unless it is of the quarter that Samples chooses: for tests that start
// processes, whose code other tests run with the detector in one process.
func Sample(t testing.TB) {
	t.Helper()
	if !Samples(t.Name()) {
		t.Skip("with the race detector a quarter of such tests runs")
	}
}

// Short reports whether tables are sampled.
func Short() bool { return On && testing.Short() }
