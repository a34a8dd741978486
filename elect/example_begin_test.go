package elect_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// stage stands in for a test in runnable examples, with an etcd in memory.
type stage struct {
	testing.TB
	etcd     *pawltest.Cluster
	cleanups []func()
}

func begin() *stage {
	s := &stage{}
	s.etcd = pawltest.New(s)
	return s
}

// client returns the client of one process.
func (s *stage) client() *pawl.Client { return s.etcd.Client(s, pawl.Config{}) }

func (s *stage) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

func (s *stage) Helper()          {}
func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *stage) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
