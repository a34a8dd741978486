package lock

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
)

// plan is what the record, as it was read last, leaves to do.
type plan struct {
	begin   bool  // the schedule begins to count now: there is no record, or it is of another schedule
	other   error // why the record is of another schedule; nil if it is not
	skipped int
	next    time.Time // the first time that is not due yet; zero if there is none
	again   time.Time // not before then is a time run again that has failed; zero if there is none
	spot    time.Time // after which the schedule does not advance
	bad     error     // how
	err     error     // of a schedule that never advances
}

// due chooses the time to run now, by the record.
func (e *every) due(run keys.Run, recorded bool) (at time.Time, ok bool, err error) {
	now := time.Now()
	if e.plan = (plan{begin: !recorded}); !recorded {
		return at, false, nil
	}
	if err := e.record.checkAhead(run, time.Time{}); err != nil {
		return at, false, err
	}
	if e.seen.mod != e.record.mod {
		e.seen.mod, e.seen.at = e.record.mod, now
	}
	last := run.At
	e.plan.other = e.isOther(run)
	switch {
	case e.plan.other == nil && e.since.IsZero():
		e.since = now
	case e.plan.other != nil && e.since.IsZero():
		e.plan.begin = true
		return at, false, nil
	case e.plan.other != nil && e.since.After(last):
		last = e.since
	}
	m := &e.missed
	if e.plan.err = m.count(last, now); e.plan.err != nil {
		return at, false, nil
	}
	e.plan.skipped, e.plan.next, e.plan.spot, e.plan.bad = m.older, m.next, m.spot, m.bad
	if len(m.times) == 0 || e.opts.CatchUp == Skip && !m.times[0].Equal(e.waited) {
		return at, false, nil
	}
	if again := e.again(run.Failed, m.times[0]); again.After(now) {
		e.plan.again = again
		return at, false, nil
	}
	return m.times[0], true, nil
}

// isOther returns why the record was written under another schedule, or nil. A record that says nothing
// of its schedule counts as this one's.
func (e *every) isOther(run keys.Run) error {
	if run.Next.IsZero() {
		return nil
	}
	next, _, err := nextAfter(e.schedule, run.At)
	if err != nil || next.Equal(run.Next) {
		return nil // due reports the schedule's error
	}
	has := "none"
	if !next.IsZero() {
		has = next.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("%w: after %s it has %s next, and this one has %s", ErrOtherSchedule,
		run.At.UTC().Format(time.RFC3339), run.Next.UTC().Format(time.RFC3339), has)
}

// again returns until when at is not run again, after failed. The clock of the machine that wrote it may
// be ahead, so it counts for no longer than such a pause lasts.
func (e *every) again(failed keys.Failed, at time.Time) time.Time {
	most := e.seen.at.Add(retryMost)
	switch {
	case !failed.At.Equal(at):
		return time.Time{}
	case failed.Again.After(most):
		return most
	}
	return failed.Again
}
