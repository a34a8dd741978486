// Package exampletb stands in for a test in runnable examples, which have no test but call
// functions that need one.
package exampletb

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// A T is a test that an example begins and ends. It panics if something goes wrong.
type T struct {
	testing.TB
	cleanups []func()
}

// Begin returns a T, which must be ended.
func Begin() *T { return &T{} }

// End runs what Cleanup was given, the last first.
func (t *T) End() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

// Helper does nothing.
func (t *T) Helper() {}

// Cleanup makes End run f.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Fatalf panics.
func (t *T) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TempDir returns a folder that End removes.
func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
