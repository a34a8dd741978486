// Package testscale says how much of a long test runs. The everyday lanes, "go test ./..." in the root
// and "go test work", run a base of cases and the pairs that meet in the code. The proof, "make
// proof", runs the full product of every table, every interleaving, and the thousand-tries
// versions. A test asks this package only which of the two it is in, and not how fast the machine
// is.
package testscale

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Hang is how long a test outside a bubble waits for an event before it gives up. It bounds
// tests that hang and judges nothing, so it is wide enough for a machine that is a hundred
// times slower than the one the test was written on.
const Hang = 3 * time.Minute

// Almost nothing of a bubble stays after it, so collecting garbage less often saves a test of many
// bubbles a quarter of its time. If GOGC is set, it is obeyed.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// SideBySide makes n tests of a package run at a time, unless the command line says how many. It is
// for a TestMain of tests that wait for processes, leases and pages, and compute little.
func SideBySide(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // it is there, and takes a number
	}
}

// Await returns when happened, which it calls again and again in the test's own goroutine, returns
// true. So happened may end the test.
func Await(t testing.TB, happened func() bool, about ...any) {
	t.Helper()
	for began := time.Now(); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > Hang {
			t.Fatalf("it does not happen: %s", fmt.Sprint(about...))
		}
	}
}

// Seed returns the seed of a test's random choices, which is that of the environment variable
// PAWL_SEED, or a random one. A test that fails prints it in the command that repeats it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("PAWL_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	pc, _, _, _ := runtime.Caller(1)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("again with: " + command(seed, t.Name(), runtime.FuncForPC(pc).Name()))
		}
	})
	return seed
}

// command returns the command that repeats a test, given the function's full name, which is its
// package's name, a dot, and its name.
func command(seed uint64, test, function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	proof := ""
	if Proof() {
		proof = "PAWL_PROOF=1 "
	}
	return proof + "PAWL_SEED=" + strconv.FormatUint(seed, 10) + " go test -count=1 -run '^" +
		strings.ReplaceAll(test, "/", "$/^") + "$' " + function[:slash] + strings.TrimSuffix(name, "_test")
}

// Proof reports whether the whole proof runs: PAWL_PROOF is set, as "make proof" does.
func Proof() bool { return os.Getenv("PAWL_PROOF") != "" }

// OnlyProof skips a test that runs only in the proof. The reason says which test of the everyday
// lanes covers the same rule at a smaller size.
func OnlyProof(t testing.TB, reason string) {
	t.Helper()
	if !Proof() {
		t.Skip("only in make proof: " + reason)
	}
}

// Skipped appends line, which says what was not tested, to the file that PAWL_SKIPPED names, if it does.
func Skipped(line string) {
	path := os.Getenv("PAWL_SKIPPED")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// Of returns everyday, or in the proof whole, such as a count of tries, a depth, or the rows of a
// table.
func Of[T any](everyday, whole T) T {
	if Proof() {
		return whole
	}
	return everyday
}
