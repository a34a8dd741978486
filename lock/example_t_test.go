package lock_test

import (
	"fmt"
	"slices"
	"testing"
)

// example stands in for a test in runnable examples.
type example struct {
	testing.TB
	cleanups []func()
}

func begin() *example { return &example{} }

func (e *example) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

func (e *example) Helper()          {}
func (e *example) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
