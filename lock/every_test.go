package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// runs records the times for which a job has run, on all machines of a test.
type runs struct {
	mu   sync.Mutex
	ats  []time.Time
	told []lock.Firing
	fail func(at time.Time, n int) error // of the n-th run; nil if none fails
}

func (r *runs) notify(f lock.Firing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, f)
}

// fired returns the firings that were reported.
func (r *runs) fired() []lock.Firing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

func (r *runs) job(_ context.Context, _ *lock.Held, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ats = append(r.ats, at)
	if r.fail != nil {
		return r.fail(at, len(r.ats))
	}
	return nil
}

// minutes returns the times that have run since the last call, in minutes from the bubble's
// beginning.
func (r *runs) minutes() (all []int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.ats {
		all = append(all, int(at.Sub(bubbleBegins)/time.Minute))
	}
	r.ats = nil
	return all
}

var (
	bubbleBegins = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	eachMinute   = lock.Interval(time.Minute, 0)
)

// every starts Every for the name of all tests on a new client. stop ends it and waits for it.
func (w *fixture) every(s lock.Schedule, fn func(context.Context, *lock.Held, time.Time) error, opts lock.EveryOptions) (stop func()) {
	return w.everyOn(w.client(pawl.Config{}), s, fn, opts)
}

func (w *fixture) everyOn(c *pawl.Client, s lock.Schedule, fn func(context.Context, *lock.Held, time.Time) error, opts lock.EveryOptions) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	over := make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		assert.ErrorIs(w, lock.New(c, "name", lock.Options{}).Every(ctx, s, fn, opts), context.Canceled)
	}()
	stop = func() { cancel(); <-over }
	w.Cleanup(stop)
	return stop
}

func TestOfManyWhoRunEveryOneRunsEachTime(t *testing.T) {
	for _, catchUp := range []lock.CatchUp{lock.Latest, lock.All, lock.Skip} {
		inBubble(t, func(w *fixture) {
			r := &runs{}
			for range 5 {
				w.every(eachMinute, r.job, lock.EveryOptions{CatchUp: catchUp})
			}
			time.Sleep(30 * time.Second)
			assert.Empty(w, r.minutes(), "the first time of all is the next")
			time.Sleep(10 * time.Minute)
			assert.Equal(w, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, r.minutes())
		})
	}
}

// While nothing is due, Every sends nothing. Each machine reads the record twice for a time that
// another machine runs.
func TestEverySendsNothingWhileNothingIsDue(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.every(lock.Interval(time.Hour, 0), r.job, lock.EveryOptions{})
		time.Sleep(time.Minute)
		before := w.f.Counts()
		time.Sleep(50 * time.Minute)
		received := w.f.Counts().Since(before).Received
		assert.Zero(w, received["Range"]+received["Txn"]+received["LeaseGrant"])
	})
}

func TestCatchUpSaysWhichMissedTimesAreRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    lock.EveryOptions
		want    []int
		skipped int // before the first of them
	}{
		{"latest", lock.EveryOptions{}, []int{10, 11}, 7},
		{"all", lock.EveryOptions{CatchUp: lock.All}, []int{3, 4, 5, 6, 7, 8, 9, 10, 11}, 0},
		{"all, bounded", lock.EveryOptions{CatchUp: lock.All, Most: 3}, []int{8, 9, 10, 11}, 5},
		{"skip", lock.EveryOptions{CatchUp: lock.Skip}, []int{11}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				r := &runs{}
				stop := w.every(eachMinute, r.job, c.opts)
				time.Sleep(2*time.Minute + time.Second)
				stop()
				require.Equal(w, []int{1, 2}, r.minutes())
				time.Sleep(8 * time.Minute) // nobody is there at 3 to 10
				c.opts.Notify = r.notify
				stop = w.every(eachMinute, r.job, c.opts)
				time.Sleep(time.Minute)
				stop()
				assert.Equal(w, c.want, r.minutes())
				fired := r.fired()
				require.Len(w, fired, len(c.want))
				assert.Equal(w, c.skipped, fired[0].Skipped)
				for _, f := range fired[1:] {
					assert.Zero(w, f.Skipped)
				}
			})
		})
	}
}

// asked counts how often a schedule is asked.
type asked struct {
	lock.Schedule
	n atomic.Int64
}

func (s *asked) Next(t time.Time) time.Time {
	s.n.Add(1)
	return s.Schedule.Next(t)
}

func TestAllAsksItsScheduleAFewTimesForEachTimeThatWasMissed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		const missed = 500
		r, s := &runs{}, &asked{Schedule: lock.Interval(time.Second, 0)}
		opts := lock.EveryOptions{CatchUp: lock.All, Most: missed}
		stop := w.every(s, r.job, opts)
		time.Sleep(time.Second / 2)
		stop()
		time.Sleep(missed * time.Second) // nobody is there
		s.n.Store(0)
		w.every(s, r.job, opts)
		time.Sleep(time.Second / 4)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Len(w, r.ats, missed)
		assert.Less(w, s.n.Load(), int64(6*missed))
	})
}

// A machine that dies in the middle of a run loses no time, even if the period is below its
// session's TTL. The run is not recorded, so the others run it, and what has become due meanwhile.
func TestAHolderThatDiesInTheMiddleOfARunLosesNone(t *testing.T) {
	const period = 5 * time.Second
	for _, c := range []struct {
		catchUp lock.CatchUp
		want    []time.Duration
		skipped int
	}{
		{lock.Latest, []time.Duration{15 * time.Second, 20 * time.Second}, 2},
		{lock.All, []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second}, 0},
	} {
		inBubble(t, func(w *fixture) {
			began, end := make(chan string), make(chan struct{})
			each := lock.Interval(period, 0)
			stop := w.every(each, func(_ context.Context, h *lock.Held, _ time.Time) error {
				began <- h.Key()
				<-end
				return errors.New("it was dead")
			}, lock.EveryOptions{CatchUp: c.catchUp})
			dead := <-began
			r := &runs{}
			w.every(each, r.job, lock.EveryOptions{CatchUp: c.catchUp, Notify: r.notify})
			time.Sleep(12 * time.Second)
			assert.Empty(w, r.minutes())
			w.f.Revoke(w.f.Get(dead).Lease)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			r.mu.Lock()
			var got []time.Duration
			for _, at := range r.ats {
				got = append(got, at.Sub(bubbleBegins))
			}
			r.mu.Unlock()
			assert.Equal(w, c.want, got)
			var skipped int
			for _, f := range r.fired() {
				skipped += f.Skipped
			}
			assert.Equal(w, c.skipped, skipped)
			close(end)
			stop()
		})
	}
}

// If fn fails, it is called again for the same time until the next one has come.
func TestEveryRepeatsARunThatFailed(t *testing.T) {
	failure := errors.New("the job failed")
	for _, c := range []struct {
		catchUp lock.CatchUp
		want    []int // with failures for the time 1, twice
		rest    []int // with failures for the time 3, always
	}{
		{lock.Latest, []int{1, 1, 1, 2}, []int{4}},
		{lock.Skip, []int{1, 1, 1, 2}, []int{4}},
		{lock.All, []int{1, 1, 1, 2}, nil},
	} {
		inBubble(t, func(w *fixture) {
			var failed int
			r := &runs{fail: func(at time.Time, n int) error {
				switch at.Sub(bubbleBegins) {
				case time.Minute:
					if failed++; failed <= 2 {
						return failure
					}
				case 3 * time.Minute:
					return failure
				}
				return nil
			}}
			w.every(eachMinute, r.job, lock.EveryOptions{CatchUp: c.catchUp, Notify: r.notify})
			time.Sleep(2*time.Minute + 30*time.Second)
			assert.Equal(w, c.want, r.minutes())
			told := r.fired()
			require.Len(w, told, 4)
			assert.ErrorIs(w, told[0].Err, failure)
			assert.NoError(w, told[2].Err)
			time.Sleep(time.Minute + 59*time.Second)
			var rest []int
			for _, at := range r.minutes() {
				if at != 3 {
					rest = append(rest, at)
				}
			}
			assert.Equal(w, c.rest, rest)
		})
	}
}

// With RecordFirst a run that failed is recorded and not repeated.
func TestEveryWithRecordFirstRepeatsNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{fail: func(time.Time, int) error { return errors.New("the job failed") }}
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute+time.Second)
		defer cancel()
		err := lock.New(w.spare, "name", lock.Options{RecordFirst: true}).Every(ctx, eachMinute, r.job, lock.EveryOptions{})
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.Equal(w, []int{1, 2, 3}, r.minutes())
	})
}

// The machine whose clock is ahead runs the job, once. When the others' clocks reach that time,
// they find its record.
func TestATimeThatAMachineAheadHasRunIsNotRunAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.every(eachMinute, r.job, lock.EveryOptions{})
		time.Sleep(time.Minute + 57*time.Second)
		ran, err := mutex(w.session()).Once(w.Context(), bubbleBegins.Add(2*time.Minute), func(context.Context, *lock.Held) error { return nil })
		require.NoError(w, err)
		require.True(w, ran)
		time.Sleep(90 * time.Second)
		assert.Equal(w, []int{1, 3}, r.minutes())
	})
}

func TestEveryWaitsForItsFunctionWhenItIsToEnd(t *testing.T) {
	inBubble(t, func(w *fixture) {
		began, finish := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancelCause(w.Context())
		over := make(chan error)
		go func() { // ends with ctx
			over <- lock.New(w.spare, "name", lock.Options{}).Every(ctx, eachMinute, func(ctx context.Context, _ *lock.Held, _ time.Time) error {
				close(began)
				<-ctx.Done()
				<-finish
				return nil
			}, lock.EveryOptions{})
		}()
		<-began
		why := errors.New("the machine is shut down")
		cancel(why)
		synctest.Wait()
		select {
		case <-over:
			assert.Fail(w, "it returned before its function")
		default:
		}
		close(finish)
		assert.ErrorIs(w, <-over, why)
		assert.Equal(w, "2000-01-01T00:01:00Z\nnext 2000-01-01T00:02:00Z", string(w.f.Get(recordKey).Value), "the run is recorded")
	})
}

// steps is a schedule of given times.
type steps []time.Time

func (s steps) Next(t time.Time) time.Time {
	for _, at := range s {
		if at.After(t) {
			return at
		}
	}
	return time.Time{}
}

type backwards struct{}

func (backwards) Next(t time.Time) time.Time { return t.Add(-time.Second) }

func TestEveryEndsWithTheScheduleTheClientAndTheSession(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		every := func(over pawl.Sessions, s lock.Schedule) error {
			return lock.New(over, "name", lock.Options{}).Every(w.Context(), s, r.job, lock.EveryOptions{})
		}
		assert.NoError(w, every(w.spare, steps{bubbleBegins.Add(time.Minute), bubbleBegins.Add(3 * time.Minute)}))
		assert.Equal(w, []int{1, 3}, r.minutes())
		assert.ErrorContains(w, every(w.spare, backwards{}), "which is not after it")

		s := w.session()
		time.AfterFunc(90*time.Second, func() { _ = s.Close(w.Context()) })
		assert.ErrorIs(w, every(s, eachMinute), lease.ErrClosed)
		c := w.client(pawl.Config{})
		time.AfterFunc(90*time.Second, func() { _ = c.Close() })
		assert.ErrorIs(w, every(c, eachMinute), lease.ErrClosed)
	})
}

func TestEveryRefusesBadArguments(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		rev := w.f.Revision()
		for _, c := range []struct {
			s    lock.Schedule
			fn   func(context.Context, *lock.Held, time.Time) error
			opts lock.EveryOptions
			want string
		}{
			{nil, r.job, lock.EveryOptions{}, "nil Schedule"},
			{lock.Interval(0, 0), r.job, lock.EveryOptions{}, "Interval of 0s, want more than 0"},
			{lock.Interval(-time.Second, 0), r.job, lock.EveryOptions{}, "want more than 0"},
			{eachMinute, nil, lock.EveryOptions{}, "nil function"},
			{eachMinute, r.job, lock.EveryOptions{CatchUp: 3}, "EveryOptions.CatchUp is 3, want Latest, All or Skip"},
			{eachMinute, r.job, lock.EveryOptions{CatchUp: -1}, "EveryOptions.CatchUp is -1"},
			{eachMinute, r.job, lock.EveryOptions{Most: -1}, "EveryOptions.Most is -1, want 0 or more"},
		} {
			err := lock.New(w.spare, "name", lock.Options{}).Every(w.Context(), c.s, c.fn, c.opts)
			assert.ErrorContains(w, err, c.want)
			assert.ErrorContains(w, err, `lock: every "name"`)
		}
		assert.Equal(w, rev, w.f.Revision())
	})
}

// After the cluster was away for a while, the times that have passed are caught up with.
func TestEveryOutlivesAClusterThatIsAway(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.every(eachMinute, r.job, lock.EveryOptions{CatchUp: lock.All})
		time.Sleep(90 * time.Second)
		w.f.Cut()
		time.Sleep(3 * time.Minute)
		w.f.Heal()
		time.Sleep(75 * time.Second)
		assert.Equal(w, []int{1, 2, 3, 4, 5}, r.minutes())
	})
}

// If somebody deletes the record, it begins again, and the next time is run.
func TestEveryBeginsAnewWhereTheRecordIsDeleted(t *testing.T) {
	inBubble(t, func(w *fixture) {
		r := &runs{}
		w.every(eachMinute, r.job, lock.EveryOptions{CatchUp: lock.All})
		time.Sleep(90 * time.Second)
		w.f.Delete(recordKey)
		time.Sleep(time.Minute)
		assert.Equal(w, "2000-01-01T00:02:00Z\nnext 2000-01-01T00:03:00Z\nbegan", string(w.f.Get(recordKey).Value))
		time.Sleep(2 * time.Minute)
		assert.Equal(w, []int{1, 3, 4}, r.minutes(), "what is due when the record is found missing is its beginning")
	})
}

func TestARunOfEveryIsAnEvent(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		c, _ := w.observedBy(e)
		failure := errors.New("the job failed")
		r := &runs{fail: func(_ time.Time, n int) error {
			if n == 1 {
				return failure
			}
			return nil
		}}
		w.everyOn(c, eachMinute, r.job, lock.EveryOptions{})
		time.Sleep(90 * time.Second)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		jobs := of[observe.JobRan](e.rest)
		require.Len(w, jobs, 2)
		assert.Equal(w, bubbleBegins.Add(time.Minute), jobs[0].At.UTC())
		assert.ErrorIs(w, jobs[0].Err, failure)
		assert.NoError(w, jobs[1].Err)
		assert.Greater(w, jobs[1].Late, jobs[0].Late)
		assert.Equal(w, "name", jobs[1].Name)
	})
}

func TestIntervalsAreCountedFromMidnightUTC(t *testing.T) {
	at := func(h, m int) time.Time { return time.Date(2026, 1, 2, h, m, 0, 0, time.UTC) }
	three := lock.Interval(24*time.Hour, 3*time.Hour)
	assert.Equal(t, at(3, 0), three.Next(at(0, 0)))
	assert.Equal(t, at(3, 0), three.Next(at(2, 59)))
	assert.Equal(t, at(27, 0), three.Next(at(3, 0)), "after it, and not at it")
	assert.Equal(t, at(1, 15), lock.Interval(time.Hour, 15*time.Minute).Next(at(0, 15)))
	assert.Equal(t, at(1, 0), lock.Interval(time.Hour, 48*time.Hour).Next(at(0, 30)), "an offset beyond the interval")
	assert.Equal(t, at(0, 45), lock.Interval(time.Hour, -15*time.Minute).Next(at(0, 30)))
}
