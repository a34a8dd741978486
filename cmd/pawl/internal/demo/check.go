package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
)

// checkQueue checks the first part against the store's log: the order in which contenders came, how
// often each had to write, and the counter at the end. It returns nil if every increment arrived,
// once, in the order of the tokens, and the first round went first come, first served.
func checkQueue(log []write, value int64, came []string, rounds int) error {
	if want := len(came) * rounds; len(log) != want || value != int64(want) {
		return fmt.Errorf("%d writes, counter %d, want %d: something was lost", len(log), value, want)
	}
	counts := map[string]int{}
	var token fencing.Token
	var last int64
	for i, w := range log {
		switch {
		case w.Was != last || w.Became != last+1:
			return fmt.Errorf("write %d by %s read %d and wrote %d, but the counter was %d", i+1, w.Worker, w.Was, w.Became, last)
		case w.Token <= token:
			return fmt.Errorf("write %d by %s has token %d, not above %d before it", i+1, w.Worker, w.Token, token)
		case i < len(came) && w.Worker != came[i]:
			return fmt.Errorf("%s wrote at place %d, where %s had queued: not first come, first served", w.Worker, i+1, came[i])
		case !slices.Contains(came, w.Worker):
			return fmt.Errorf("write %d is by %s, who is no contender", i+1, w.Worker)
		}
		token, last = w.Token, w.Became
		counts[w.Worker]++
	}
	for _, who := range came {
		if counts[who] != rounds {
			return fmt.Errorf("%s wrote %d times, want %d", who, counts[who], rounds)
		}
	}
	return nil
}

// paused is what was observed of the second part.
type paused struct {
	ttl                 time.Duration // of both sessions
	stopped, continued  time.Time     // the first holder's process
	first               fact          // it reads, and reports until when it holds
	second, secondWrote fact          // the next one holds, and has written
	woke, refused       fact          // the first one's first check, and its late write
	logged              []write       // by the store, of this part
	value               int64         // of the counter in the end
}

// checkPaused checks the second part. It returns nil if the next holder came only after the first
// one's deadline, the first one's first check found that it had lost, and the store refused its
// write because of its token.
func checkPaused(p paused) error {
	switch {
	case p.continued.Sub(p.stopped) <= p.ttl:
		return fmt.Errorf("the first holder was stopped for %v, not longer than its TTL of %v", p.continued.Sub(p.stopped), p.ttl)
	case p.second.Token <= p.first.Token:
		return fmt.Errorf("the second holder's token %d is not above the first one's %d", p.second.Token, p.first.Token)
	case !p.second.At.After(p.first.Deadline):
		return fmt.Errorf("the second holder came at %s, before the first one's deadline at %s", p.second.At.Format(cli.ClockTime), p.first.Deadline.Format(cli.ClockTime))
	case !p.woke.Lost:
		return fmt.Errorf("the first holder's first check after waking said %q, not that the lock is lost", p.woke.Err)
	case p.woke.At.Before(p.continued):
		return fmt.Errorf("the first holder looked at %s, before it was woken", p.woke.At.Format(cli.ClockTime))
	case !p.refused.Stale:
		return fmt.Errorf("the late write ended with %q, not refused as stale", p.refused.Err)
	case p.refused.Token != p.first.Token || p.refused.Highest != p.second.Token:
		return fmt.Errorf("the late write was refused with token %d and highest %d, want %d and %d", p.refused.Token, p.refused.Highest, p.first.Token, p.second.Token)
	}
	want := write{p.second.Worker, p.second.Token, p.secondWrote.Was, p.secondWrote.Became}
	if len(p.logged) != 1 || p.logged[0] != want || p.value != want.Became {
		return fmt.Errorf("the store holds %v and counter %d, want the second holder's write alone: %v", p.logged, p.value, want)
	}
	return nil
}
