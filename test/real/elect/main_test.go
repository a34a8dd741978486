package elect_test

import (
	"os"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(m.Run()) // a child: its one test is named on its command line
	}
	testscale.SideBySide(4) // they wait for leases
	goleak.VerifyTestMain(m)
}

// quick are options for tests that lose many terms.
func quick(log *[]elect.Event) elect.RunOptions {
	o := elect.RunOptions{MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second, Session: lease.Options{TTL: time.Minute}}
	if log != nil {
		o.Notify = func(ev elect.Event) { *log = append(*log, ev) }
	}
	return o
}
