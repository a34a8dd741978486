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
// asserted by the runs without the detector, and with it in "make race".
func Samples(cell string) bool { return !Short() || crc32.ChecksumIEEE([]byte(cell))%4 == 0 }

// Short reports whether tables are sampled.
func Short() bool { return On && testing.Short() }
