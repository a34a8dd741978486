package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// daily is due each day at an hour, UTC.
func daily(hour int) lock.Schedule {
	return lock.Interval(24*time.Hour, time.Duration(hour)*time.Hour)
}

// gap is a daily schedule that does not advance from the hour after at, as at a change of the clock.
type gap struct{ at time.Time }

func (g gap) Next(t time.Time) time.Time {
	n := t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if !n.Before(g.at) && t.Before(g.at.Add(time.Hour)) {
		return g.at // also after itself
	}
	return n
}

// Every kind of record that must not be believed, found by a process that starts, and by one that waits
// for its time.
func TestEveryDoesNotBelieveAnyRecord(t *testing.T) {
	at := func(d time.Duration) string { return bubbleBegins.Add(d).Format(time.RFC3339Nano) }
	for _, c := range []struct {
		name     string
		schedule lock.Schedule
		record   string // put after 90 seconds
		mended   string // put after an hour; "" deletes the record
		told     error  // nil if there is no value for it
		text     string // in what is told
		ran      []int  // in the hour before it is mended
		after    []int  // in the 3 minutes after
		log      string // a warning when it begins
		ended    int    // warnings when it ends
	}{
		{name: "ahead", schedule: eachMinute, record: at(24 * time.Hour), mended: at(time.Hour), told: lock.ErrRecordAhead,
			text: "pawl runs --set TIME name", after: []int{62, 63, 64}, log: "failure=record", ended: 1},
		{name: "begun ahead", schedule: eachMinute, record: at(2*time.Hour) + "\nbegan", mended: at(time.Hour), told: lock.ErrRecordAhead,
			text: "correct the clock", after: []int{62, 63, 64}, log: "failure=record", ended: 1},
		{name: "corrupt", schedule: eachMinute, record: "rubbish", mended: at(time.Hour), text: "holds no time", after: []int{62, 63, 64}, log: "failure=record", ended: 1},
		{name: "another schedule's", schedule: daily(1), record: at(-23*time.Hour) + "\nnext " + at(30*time.Second), mended: at(time.Minute),
			told: lock.ErrOtherSchedule, text: "and this one has 2000-01-01T01:00:00Z", ran: []int{60}, log: "times before now are not run"},
	} {
		for _, waits := range []bool{false, true} {
			name := c.name + ", starting"
			if waits {
				name = c.name + ", waiting"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					r, log := &runs{}, &inmemory.Log{}
					begin := func() {
						w.everyOn(w.client(pawl.Config{Logger: log.Logger()}), c.schedule, r.job, lock.EveryOptions{Notify: r.notify})
					}
					if waits {
						begin()
					}
					time.Sleep(90 * time.Second)
					r.minutes()
					w.f.Put(recordKey, c.record, 0)
					if !waits {
						begin()
					}
					time.Sleep(time.Hour)
					assert.Equal(w, c.ran, r.minutes())
					told := 0
					for _, f := range r.fired() {
						if f.Err != nil && strings.Contains(f.Err.Error(), c.text) && (c.told == nil || errors.Is(f.Err, c.told)) {
							assert.Zero(w, f.At)
							told++
						}
					}
					assert.Positive(w, told, "%v", r.fired())
					assert.Equal(w, 1, log.Warnings(c.log), "%s", log)
					assert.Zero(w, log.Warnings("works again"))
					if w.f.Put(recordKey, c.mended, 0); c.after == nil {
						return
					}
					time.Sleep(3*time.Minute + 20*time.Second)
					got := r.minutes()
					require.GreaterOrEqual(w, len(got), 3, "it goes on within a minute")
					assert.Equal(w, c.after, got[len(got)-3:])
					assert.Equal(w, c.ended, log.Warnings("works again"))
				})
			})
		}
	}
}

// Times of a schedule that is new here were not in force before, whenever the record is from.
func TestATimeThatWasNeverInForceIsNotRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new lock.Schedule
		deploy   time.Duration
	}{
		{"03:00 becomes 05:00, deployed at 06:00", daily(3), daily(5), 30 * time.Hour},
		{"23:00 becomes 05:00, deployed at 12:00", daily(23), daily(5), 36 * time.Hour},
		{"each hour becomes each minute", lock.Interval(time.Hour, 0), eachMinute, 30*time.Minute + time.Second},
	} {
		for _, catchUp := range []lock.CatchUp{lock.Latest, lock.All, lock.Skip} {
			t.Run(c.name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					r := &runs{}
					stop := w.every(c.old, r.job, lock.EveryOptions{CatchUp: catchUp})
					time.Sleep(c.deploy)
					stop()
					r.minutes()
					for range 3 {
						w.every(c.new, r.job, lock.EveryOptions{CatchUp: catchUp})
					}
					time.Sleep(time.Second)
					assert.Empty(w, r.minutes(), "at the deployment")
					next := c.new.Next(bubbleBegins.Add(c.deploy))
					time.Sleep(time.Until(next) + time.Second)
					assert.Equal(w, []int{int(next.Sub(bubbleBegins) / time.Minute)}, r.minutes(), "its first time")
				})
			})
		}
	}
}

// While machines of two versions run, each of them runs what it waited for, so that no version starves.
func TestTwoSchedulesOfOneNameRunTheirTimesAndSaySo(t *testing.T) {
	inBubble(t, func(w *fixture) {
		old, young, r := &runs{}, &runs{}, &runs{}
		w.every(daily(3), old.job, lock.EveryOptions{Notify: r.notify})
		time.Sleep(time.Hour)
		w.every(daily(5), young.job, lock.EveryOptions{Notify: r.notify})
		time.Sleep(3 * 24 * time.Hour)
		assert.Equal(w, []int{3 * 60, 27 * 60, 51 * 60}, old.minutes())
		assert.Equal(w, []int{5 * 60, 29 * 60, 53 * 60}, young.minutes())
		others := 0
		for _, f := range r.fired() {
			if errors.Is(f.Err, lock.ErrOtherSchedule) {
				others++
			}
		}
		assert.GreaterOrEqual(w, others, 6)
	})
}

// A time that was missed under this schedule is still run after a restart, whoever began the schedule.
func TestAfterAChangeOfTheScheduleMissedTimesAreRunAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		stop := w.every(daily(3), r.job, lock.EveryOptions{})
		time.Sleep(6 * time.Hour)
		stop()
		stop = w.every(daily(5), r.job, lock.EveryOptions{})
		time.Sleep(time.Hour)
		stop()
		r.minutes()
		time.Sleep(24 * time.Hour)
		w.every(daily(5), r.job, lock.EveryOptions{})
		time.Sleep(time.Minute)
		assert.Equal(w, []int{29 * 60}, r.minutes())
	})
}

func TestAScheduleThatDoesNotAdvanceOnceIsSteppedOver(t *testing.T) {
	for _, catchUp := range []lock.CatchUp{lock.Latest, lock.All, lock.Skip} {
		inBubble(t, func(w *fixture) {
			r, log := &runs{}, &inmemory.Log{}
			g := gap{bubbleBegins.Add(71 * time.Hour)}
			c := w.client(pawl.Config{Logger: log.Logger()})
			w.everyOn(c, g, r.job, lock.EveryOptions{CatchUp: catchUp, Notify: r.notify})
			time.Sleep(4*24*time.Hour + time.Minute)
			assert.Equal(w, []int{24 * 60, 48 * 60, 71 * 60, 72*60 + 24*60}, r.minutes())
			var bad []lock.Firing
			for _, f := range r.fired() {
				if errors.Is(f.Err, lock.ErrSchedule) {
					bad = append(bad, f)
				}
			}
			require.Len(w, bad, 1, "it is said once")
			assert.Equal(w, 1, log.Warnings("stepped over a time"))
		})
	}
}

// A process that starts finds a record from before the place where the schedule does not advance.
func TestARecordBeforeATimeThatDoesNotAdvanceEndsNoName(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.f.Put(recordKey, "1999-12-28T00:00:00Z", 0)
		w.every(gap{bubbleBegins.Add(-25 * time.Hour)}, r.job, lock.EveryOptions{})
		time.Sleep(24*time.Hour + time.Minute)
		assert.Equal(w, []int{0, 24 * 60}, r.minutes())
	})
}

// Once, and pawl lock --once by the same code, do not take a record that is ahead for a run.
func TestOnceDoesNotBelieveARecordThatIsAhead(t *testing.T) {
	for _, c := range []struct {
		name   string
		record time.Duration // from now
		at     time.Duration
		ahead  bool
	}{
		{"a year ahead", 365 * 24 * time.Hour, 0, true},
		{"a bit more than a minute", time.Minute + time.Second, 0, true},
		{"within what clocks differ", time.Minute, 0, false},
		{"the time that is asked for", time.Hour, time.Hour, false},
		{"before the time that is asked for", time.Hour, 2 * time.Hour, false},
		{"after the time that is asked for", 2 * time.Hour, time.Hour, true},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					var n atomic.Int64
					now := time.Now() // at which it acquires the lock
					put := func() { w.f.Put(recordKey, now.Add(c.record).Format(time.RFC3339Nano), 0) }
					if waits {
						now = now.Add(time.Minute)
						other := w.acquire(w.session())
						time.AfterFunc(time.Minute, func() { put(); _ = other.Release(w.Context()) })
					} else {
						put()
					}
					ran, err := lock.New(w.spare, "name", lock.Options{}).Once(w.Context(), now.Add(c.at), job(&n, nil))
					assert.Equal(w, c.record < c.at, ran)
					assert.Equal(w, c.ahead, errors.Is(err, lock.ErrRecordAhead), "%v", err)
					if !c.ahead {
						assert.NoError(w, err)
					}
				})
			})
		}
	}
}

// The pause after a failure holds for all machines: they call a failing service as often as one would.
func TestAFleetCallsAFailingServiceAsOneMachineDoes(t *testing.T) {
	for _, c := range []struct {
		machines int
		catchUp  lock.CatchUp
	}{{1, lock.Latest}, {10, lock.Latest}, {3, lock.All}, {3, lock.Skip}} {
		inBubble(t, func(w *fixture) {
			r := &runs{fail: func(time.Time, int) error { return errors.New("over the limit") }}
			for range c.machines {
				w.every(lock.Interval(time.Hour, 0), r.job, lock.EveryOptions{CatchUp: c.catchUp})
			}
			time.Sleep(time.Hour + 100*time.Millisecond)
			assert.Len(w, r.minutes(), 1)
			time.Sleep(time.Minute)
			assert.LessOrEqual(w, len(r.minutes()), 8)
			time.Sleep(10 * time.Minute)
			again := len(r.minutes())
			assert.LessOrEqual(w, again, 20)
			assert.GreaterOrEqual(w, again, 10)
		})
	}
}

// The clock of the machine whose run failed may be ahead, so its word counts for a minute at most.
func TestAPauseOfAMachineThatIsAheadLastsAMinute(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.f.Put(recordKey, "1999-12-31T23:00:00Z\nfailed 2000-01-01T00:00:00Z 1 again 2000-01-01T05:00:00Z", 0)
		w.every(lock.Interval(time.Hour, 0), r.job, lock.EveryOptions{})
		time.Sleep(59 * time.Second)
		assert.Empty(w, r.minutes())
		time.Sleep(2 * time.Second)
		assert.Equal(w, []int{0}, r.minutes())
		assert.NotContains(w, string(w.f.Get(recordKey).Value), "failed")
	})
}

// A process that is stopped in the middle of a run, or loses its lock, leaves no pause to the others.
func TestARunThatWasStoppedLeavesNoPause(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r, began := &runs{}, make(chan struct{})
		stop := w.every(eachMinute, func(ctx context.Context, _ *lock.Held, _ time.Time) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}, lock.EveryOptions{})
		<-began
		w.every(eachMinute, r.job, lock.EveryOptions{})
		stop()
		time.Sleep(100 * time.Millisecond)
		assert.Equal(w, []int{1}, r.minutes())
	})
}

// Nine times whose runs failed, and were given up, are nine skipped times, whoever counts.
func TestASkippedTimeCountsOnce(t *testing.T) {
	for _, machines := range []int{1, 3} {
		inBubble(t, func(w *fixture) {
			r := &runs{fail: func(at time.Time, _ int) error {
				if at.Sub(bubbleBegins) < 10*time.Minute {
					return errors.New("no")
				}
				return nil
			}}
			for range machines {
				w.every(eachMinute, r.job, lock.EveryOptions{Notify: r.notify})
			}
			time.Sleep(12*time.Minute + time.Second)
			synctest.Wait()
			sum := 0
			for _, f := range r.fired() {
				sum += f.Skipped
			}
			assert.Equal(w, 9, sum)
		})
	}
}

// Between two firings that are far apart there is no session: nothing is sent, also after the first run.
func TestEverySendsNothingBetweenFirings(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		for range 10 {
			w.every(lock.Interval(time.Hour, 0), r.job, lock.EveryOptions{})
		}
		for hour := range 3 {
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			before := w.f.Counts()
			time.Sleep(50 * time.Minute)
			received := w.f.Counts().Since(before).Received
			assert.Zero(w, sum(received), "%v", received)
			assert.Empty(w, w.f.Keys("//pawl/"+"sess"), "no session")
			time.Sleep(5 * time.Minute)
			assert.Equal(w, []int{60 * (hour + 1)}, r.minutes())
		}
	})
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Firings that are near keep their session: a lease for each would cost more.
func TestEveryKeepsItsSessionWhileFiringsAreNear(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.every(lock.Interval(50*time.Second, 0), r.job, lock.EveryOptions{})
		time.Sleep(2 * time.Minute)
		before := w.f.Counts()
		time.Sleep(10 * time.Minute)
		assert.Zero(w, w.f.Counts().Since(before).Received["LeaseGrant"])
	})
}

// The session that ends between firings is not the one that the program's other locks are on, and it
// stays for Options.AtLeast.
func TestTheSessionOfEveryEndsNothingElse(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client(pawl.Config{})
		other, err := lock.New(c, "another", lock.Options{}).Acquire(w.Context())
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		over := make(chan error)
		var held []string
		go func() { // ends with ctx
			over <- lock.New(c, "name", lock.Options{AtLeast: 30 * time.Second}).Every(ctx, lock.Interval(time.Hour, 0), func(_ context.Context, h *lock.Held, _ time.Time) error {
				held = append(held, h.Key())
				return nil
			}, lock.EveryOptions{})
		}()
		time.Sleep(time.Hour + 29*time.Second)
		synctest.Wait()
		require.Len(w, held, 1)
		assert.NotNil(w, w.f.Get(held[0]), "it stays taken")
		time.Sleep(2 * time.Second)
		assert.Nil(w, w.f.Get(held[0]))
		assert.NoError(w, other.Err())
		cancel()
		assert.ErrorIs(w, <-over, context.Canceled)
		assert.NoError(w, other.Release(w.Context()))
	})
}

// Who may not do it is told so once in the log, and in the error that ends the call. No try costs a
// lease.
func TestEveryWithoutPermissionGrantsNoLeaseForEachTry(t *testing.T) {
	for name, access := range map[string][]etcdfake.Access{
		"nothing":                    {},
		"not the sessions' keys":     {{Prefix: "name/", Read: true, Write: true}, {Prefix: recordKey, Read: true, Write: true}},
		"not the name's keys":        {{Prefix: "//pawl/", Read: true, Write: true}},
		"the name's, only to read":   {{Prefix: "//pawl/", Read: true, Write: true}, {Prefix: "name/", Read: true}},
		"the record's, only to read": {{Prefix: "name/", Read: true, Write: true}, {Prefix: "//pawl/", Read: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				w.f.EnableAuth("root")
				w.f.SetUser("u", "p", access...)
				w.f.Put(recordKey, "1999-12-31T00:00:00Z", 0)
				r, log := &runs{}, &inmemory.Log{}
				c := w.client(pawl.Config{Username: "u", Password: "p", Logger: log.Logger()})
				before := w.f.Counts()
				ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
				defer cancel()
				err := lock.New(c, "name", lock.Options{}).Every(ctx, eachMinute, r.job, lock.EveryOptions{})
				assert.ErrorIs(w, err, context.DeadlineExceeded)
				assert.ErrorContains(w, err, "permission denied")
				assert.Empty(w, r.minutes())
				assert.LessOrEqual(w, w.f.Counts().Since(before).Received["LeaseGrant"], 2)
				assert.Equal(w, 1, log.Warnings("schedule fails and is tried again"), "%s", log)

				w.f.SetUser("u", "p", etcdfake.Access{Prefix: "name/", Read: true, Write: true}, etcdfake.Access{Prefix: "//pawl/", Read: true, Write: true})
				w.everyOn(c, eachMinute, r.job, lock.EveryOptions{})
				time.Sleep(2 * time.Minute)
				assert.NotEmpty(w, r.minutes())
			})
		})
	}
}

// Where the record alone may not be written, the job has run before that is known. It does not run again
// for as long as nobody could record it.
func TestARecordThatMayNotBeWrittenRunsTheJobOnce(t *testing.T) {
	for _, first := range []bool{false, true} {
		inBubble(t, func(w *fixture) {
			own := []etcdfake.Access{{Prefix: "name/", Read: true, Write: true}, {Prefix: "//pawl/", Read: true}}
			for _, digit := range "0123456789abcdef" { // the sessions' keys, by their leases
				own = append(own, etcdfake.Access{Prefix: "//pawl/" + string(digit), Read: true, Write: true})
			}
			w.f.EnableAuth("root")
			w.f.SetUser("u", "p", own...)
			w.f.Put(recordKey, "1999-12-31T00:00:00Z", 0)
			r, log := &runs{}, &inmemory.Log{}
			c := w.client(pawl.Config{Username: "u", Password: "p", Logger: log.Logger()})
			before := w.f.Counts()
			ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
			defer cancel()
			err := lock.New(c, "name", lock.Options{RecordFirst: first}).Every(ctx, eachMinute, r.job, lock.EveryOptions{Notify: r.notify})
			assert.ErrorIs(w, err, context.DeadlineExceeded)
			assert.ErrorContains(w, err, "permission denied")
			if first {
				assert.Empty(w, r.minutes())
			} else {
				assert.Equal(w, []int{0}, r.minutes())
			}
			assert.NotEmpty(w, r.fired())
			assert.LessOrEqual(w, w.f.Counts().Since(before).Received["LeaseGrant"], 1)
			assert.Equal(w, 1, log.Warnings("schedule fails and is tried again"), "%s", log)

			w.f.SetUser("u", "p", append(own, etcdfake.Access{Prefix: recordKey, Read: true, Write: true})...)
			w.everyOn(c, eachMinute, r.job, lock.EveryOptions{})
			time.Sleep(time.Minute)
			assert.NotEmpty(w, r.minutes())
		})
	}
}

// A job that fails is said in the log when it begins to fail, and when it no longer does.
func TestAFailingJobIsLoggedOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	inBubble(t, func(w *fixture) {
		log := &inmemory.Log{}
		r := &runs{fail: func(at time.Time, _ int) error {
			if at.Sub(bubbleBegins) < 10*time.Minute {
				return errors.New("the disk is full")
			}
			return nil
		}}
		stop := w.everyOn(w.client(pawl.Config{Logger: log.Logger()}), eachMinute, r.job, lock.EveryOptions{})
		time.Sleep(9 * time.Minute)
		assert.Equal(w, 1, log.Warnings("job fails"))
		assert.Equal(w, 1, log.Warnings("the disk is full"))
		time.Sleep(3 * time.Minute)
		assert.Equal(w, 1, log.Warnings("job works again"))
		stop()
	})
}

// Two processes begin a schedule at once. The one whose record comes later leaves the other's as it is, and
// runs what that leaves to run.
func TestTheFirstRecordOverwritesNoOther(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		var other sync.Once
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
			if slices.Contains(q.Ops(), "transaction") {
				other.Do(func() { w.f.Put(recordKey, "1999-12-31T23:58:30Z\nbegan", 0) })
			}
			return false
		}})
		w.every(eachMinute, r.job, lock.EveryOptions{})
		time.Sleep(time.Second)
		assert.Equal(w, []int{0}, r.minutes())
	})
}
