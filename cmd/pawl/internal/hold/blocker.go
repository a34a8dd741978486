package hold

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// blocker is who keeps a name taken. Without a holder, that is nobody, or somebody unknown.
type blocker struct {
	name    string
	holder  string    // "" if nobody
	holders int       // more than one: of a shared lock, or a semaphore
	said    string    // all of them, for people to read
	since   time.Time // when it began to hold, or, if it is atMost, to queue
	atMost  bool
	ahead   int   // how many waiters are served earlier
	failed  error // why the name was not even queued for, if nothing else is known
}

// notice makes a notice about b.
func (b blocker) notice(event string) notice {
	n := notice{Event: event, Name: b.name, Holder: b.holder, Holders: b.holders, Ahead: b.ahead}
	if !b.since.IsZero() && !b.atMost {
		n.Since = &b.since
	}
	return n
}

// blockerOf reads who keeps the first taken one of names, as far as can be read now. of gives the
// rest of their scope, and mine picks the caller's position in the queue.
func blockerOf(ctx context.Context, c *pawl.Client, names []string, of inspect.Scope, mine func(inspect.Position) bool) blocker {
	for _, name := range names {
		of.Name, of.Held = name, true
		s, err := inspect.Read(ctx, c, of)
		if err != nil {
			break
		}
		if len(s.Queues) > 0 {
			if b := blockerIn(s.Queues[0], mine); b.holder != "" || b.ahead > 0 {
				return b
			}
		}
	}
	return blocker{name: names[0]}
}

// blockerIn is who keeps the name of a queue taken.
func blockerIn(q inspect.NamedQueue, mine func(inspect.Position) bool) blocker {
	holders := q.Holders()
	if slices.ContainsFunc(holders, mine) {
		return blocker{}
	}
	out := blocker{name: q.Name, said: cli.Holding(q)}
	if len(holders) > 0 {
		first := holders[0]
		out.holder, out.since, out.atMost = cli.Who(first), first.Since, first.HeldSince.IsZero()
	}
	if len(holders) > 1 {
		out.holders = len(holders)
	}
	for _, p := range q.Waiters() {
		if mine(p) {
			break
		}
		out.ahead++
	}
	return out
}

// text describes it for people to read, as in "backup" is held by ann for 3 min, 2 ahead.
func (b blocker) text() string {
	s := strconv.Quote(b.name) + " is taken"
	if b.holder == "" && b.ahead == 0 && b.failed != nil {
		return strings.TrimPrefix(b.failed.Error(), "pawl: ")
	}
	if b.holder != "" {
		s = fmt.Sprintf("%q is held by %s", b.name, b.said)
		if !b.since.IsZero() {
			s += " for "
			if b.atMost {
				s += "at most "
			}
			s += lasting(time.Since(b.since))
		}
	}
	if b.ahead > 0 {
		s += fmt.Sprintf(", %d ahead", b.ahead)
	}
	return s
}

// lasting formats d for people to read, in its largest unit.
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

// onLease picks the position on a lease.
func onLease(id int64) func(inspect.Position) bool {
	return func(p inspect.Position) bool { return p.Lease == id }
}

// ofThisProcess picks the position of this process, according to the key's value.
func ofThisProcess(p inspect.Position) bool {
	host, _ := os.Hostname()
	return p.PID == os.Getpid() && strings.EqualFold(p.Host, host)
}
