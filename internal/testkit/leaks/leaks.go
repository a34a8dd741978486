// Package leaks finds goroutines that a package's tests leave behind.
package leaks

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines have to end after the last test.
const patience = 2 * time.Second

// VerifyTestMain runs the tests, and fails if goroutines are left. It does not return.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := Left(patience); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "the tests have left goroutines:\n\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// Left returns the stacks of the goroutines that have not ended within patience, without the caller's
// and those of the runtime and of package testing.
func Left(patience time.Duration) (left []string) {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if left = others(stacks()); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func stacks() string {
	for size := 1 << 16; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

// known are functions that mark a goroutine as none of the tests' own.
var known = []string{
	"testing.(*M).", "testing.(*T).Run(", "testing.(*T).Parallel(", "testing.runTests(", "testing.runFuzzing(", "testing.runFuzzTests(", "testing.tRunner(",
	"os/signal.signal_recv(", "os/signal.loop(", "runtime.ensureSigM(", "runtime.ReadTrace(", "runtime/pprof.",
}

// others returns those stacks of a dump that are not the first, which is the caller's, and not known.
func others(dump string) (left []string) {
	for _, stack := range strings.Split(strings.TrimSpace(dump), "\n\n")[1:] {
		if !isKnown(stack) {
			left = append(left, stack)
		}
	}
	return left
}

func isKnown(stack string) bool {
	for _, f := range known {
		if strings.Contains(stack, "\n"+f) {
			return true
		}
	}
	return false
}
