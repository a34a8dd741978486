package hold

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// blocker is who is in the way to a name. The zero one is that of nobody, or of an unknown.
type blocker struct {
	holder string // for people; "": nobody
	since  time.Time
	ahead  int // who waits, and is served earlier
}

// blockerOf reads who is in the way, as far as can be read now; mine picks the caller's
// own place in the queue.
func blockerOf(ctx context.Context, c *pawl.Client, scope inspect.Scope, mine func(inspect.Position) bool) blocker {
	s, err := inspect.Read(ctx, c, scope)
	if err != nil || len(s.Queues) == 0 {
		return blocker{}
	}
	var out blocker
	for i, p := range s.Queues[0].Queue {
		switch {
		case mine(p):
			return out
		case i == 0:
			out.holder, out.since = cli.Who(p), p.Since
		default:
			out.ahead++
		}
	}
	return out
}

// text says it for people: "backup" is held by ann for 3 min, 2 ahead.
func (q blocker) text(name string) string {
	if q.holder == "" {
		return strconv.Quote(name) + " is taken"
	}
	s := fmt.Sprintf("%q is held by %s", name, cli.Plain(q.holder))
	if !q.since.IsZero() {
		s += " for " + lasting(time.Since(q.since))
	}
	if q.ahead > 0 {
		s += fmt.Sprintf(", %d ahead", q.ahead)
	}
	return s
}

// lasting is d for people, in its largest unit.
func lasting(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= u.unit {
			return fmt.Sprintf("%d %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d s", max(0, d)/time.Second)
}

// onLease picks the place on a lease.
func onLease(id int64) func(inspect.Position) bool {
	return func(p inspect.Position) bool { return p.Lease == id }
}

// ofThisProcess picks the place that this process has, by what the key says of it.
func ofThisProcess(p inspect.Position) bool {
	host, _ := os.Hostname()
	return p.PID == os.Getpid() && strings.EqualFold(p.Host, host)
}
