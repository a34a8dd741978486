// Package lane says how much of a long test runs. The everyday lanes, "go test ./..." in the
// root and "go test work", run a base of cases and the pairs that meet in the code. The proof,
// "make proof", runs the full product of every table, every interleaving, and the
// thousand-tries versions. A test asks this package which of the two it is in, and nothing
// else: not how fast the machine is.
package lane

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"
)

// Hang is how long a test outside a bubble waits for an event before it gives up. It bounds
// tests that hang and judges nothing, so it is wide enough for a machine that is a hundred
// times slower than the one the test was written on.
const Hang = 3 * time.Minute

// SideBySide has n tests of a package run at a time, unless the command line says how many. It is
// for a TestMain of tests that wait for processes, leases and pages, and compute little.
func SideBySide(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // it is there, and takes a number
	}
}

// Proof reports whether the whole proof runs: PAWL_PROOF is set, as "make proof" does.
func Proof() bool { return os.Getenv("PAWL_PROOF") != "" }

// OnlyProof skips a test that runs in the proof alone. The reason tells which test of the
// everyday lanes covers the same rule at a smaller size.
func OnlyProof(t testing.TB, reason string) {
	t.Helper()
	if !Proof() {
		t.Skip("only in make proof: " + reason)
	}
}

// Of returns everyday, or in the proof whole: a count of tries, a depth, the rows of a table.
func Of[T any](everyday, whole T) T {
	if Proof() {
		return whole
	}
	return everyday
}
