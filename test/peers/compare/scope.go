//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// scope stands in for a test. What is made in it is cleaned up at its end, and a fatal error is a
// panic.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	s.cleanups = nil
}

func (s *scope) Helper()                           {}
func (s *scope) Name() string                      { return "compare" }
func (s *scope) Cleanup(f func())                  { s.cleanups = append(s.cleanups, f) }
func (s *scope) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *scope) Skip(args ...any)                  { panic(fmt.Sprint(args...)) }

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		panic(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
