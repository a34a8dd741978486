package pawlgocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/adapters/pawlgocron"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler starts a real one, which is shut down with the test.
func scheduler(t *testing.T, opt gocron.SchedulerOption, every time.Duration, late time.Duration, job func(ctx context.Context)) {
	t.Helper()
	s, err := gocron.NewScheduler(opt, gocron.WithStopTimeout(time.Hour), gocron.WithLocation(time.UTC))
	require.NoError(t, err)
	next := time.Now().Truncate(every).Add(every + late) // by a clock that is late
	_, err = s.NewJob(gocron.DurationJob(every), gocron.NewTask(job),
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartDateTime(next)))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { assert.NoError(t, s.Shutdown()) })
}

func locker(t *testing.T, etcd *pawltest.Cluster, opts pawlgocron.LockerOptions) *pawlgocron.Locker {
	t.Helper()
	return pawlgocron.NewLocker(etcd.Client(t, pawl.Config{}), opts)
}

// A job of five minutes, started every minute on three schedulers with a lease of fifteen
// seconds, runs alone.
func TestALongJobRunsAloneForLongerThanItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		var running, runs atomic.Int64
		for range 3 {
			l := locker(t, etcd, pawlgocron.LockerOptions{})
			scheduler(t, gocron.WithDistributedLocker(l), time.Minute, 0, func(ctx context.Context) {
				assert.EqualValues(t, 1, running.Add(1))
				runs.Add(1)
				ctx, done, err := l.Context(ctx, "report")
				if assert.NoError(t, err) {
					defer done()
					select {
					case <-time.After(5 * time.Minute):
					case <-ctx.Done(): // the scheduler's shutdown
						assert.NotErrorIs(t, context.Cause(ctx), lock.ErrLost)
					}
				}
				running.Add(-1)
			})
		}
		time.Sleep(31 * time.Minute)
		assert.InDelta(t, 6, runs.Load(), 1)
	})
}

// A job that takes no time, on schedulers whose clocks differ by ten seconds: by AtLeast,
// once a firing; without it, once on each of them.
func TestAShortJobRunsOnceAFiringThoughClocksDiffer(t *testing.T) {
	for least, want := range map[time.Duration]int64{30 * time.Second: 10, 0: 30} {
		synctest.Test(t, func(t *testing.T) {
			etcd := pawltest.New(t)
			var runs atomic.Int64
			for i := range 3 {
				l := locker(t, etcd, pawlgocron.LockerOptions{AtLeast: least})
				scheduler(t, gocron.WithDistributedLocker(l), time.Minute, time.Duration(i)*5*time.Second, func(context.Context) { runs.Add(1) })
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(10*time.Minute + 30*time.Second)))
			assert.Equal(t, want, runs.Load(), least)
		})
	}
}

// The scheduler that is cut off from etcd learns that its lock is lost before another runs
// the job, and its token is refused after that.
func TestAJobLearnsThatItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		var gate fencing.Gate
		client := etcd.Client(t, pawl.Config{})
		l := pawlgocron.NewLocker(client, pawlgocron.LockerOptions{Prefix: "jobs/"})
		held, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		ctx, done, err := l.Context(t.Context(), "report")
		require.NoError(t, err)
		defer done()
		resource, token, ok := fencing.FromContext(ctx)
		assert.Equal(t, []any{"jobs/report", true}, []any{resource, ok})
		assert.NoError(t, gate.Admit(resource, token))
		other := locker(t, etcd, pawlgocron.LockerOptions{Prefix: "jobs/"})
		_, err = other.Lock(t.Context(), "report")
		require.ErrorIs(t, err, lock.ErrBusy)

		etcd.CutClient(client)
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
		_, err = other.Lock(t.Context(), "report")
		require.ErrorIs(t, err, lock.ErrBusy, "the loss is reported before another can have it")
		_, _, err = l.Context(t.Context(), "report")
		require.ErrorIs(t, err, lock.ErrLost)
		time.Sleep(10 * time.Second)
		next, err := other.Lock(t.Context(), "report")
		require.NoError(t, err)
		ctx, done, err = other.Context(t.Context(), "report")
		require.NoError(t, err)
		defer done()
		_, newer, _ := fencing.FromContext(ctx)
		assert.NoError(t, gate.Admit(resource, newer))
		assert.Error(t, gate.Admit(resource, token))
		require.NoError(t, next.Unlock(t.Context()))
		assert.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		_, _, err = l.Context(t.Context(), "report")
		require.ErrorIs(t, err, pawlgocron.ErrNotRunning)
	})
}

// gocron cancels its context at a shutdown, before it unlocks.
func TestAnUnlockAtShutdownReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		held, err := locker(t, etcd, pawlgocron.LockerOptions{}).Lock(t.Context(), "report")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = held.Unlock(ctx)
		synctest.Wait()
		held, err = locker(t, etcd, pawlgocron.LockerOptions{}).Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// One of three schedulers runs all jobs, and another takes over when that one is cut off or
// closed.
func TestTheLeaderRunsTheJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		clients, electors := map[int]*pawl.Client{}, map[int]*pawlgocron.Elector{}
		ran := make(chan int, 100)
		for i := range 3 {
			clients[i] = etcd.Client(t, pawl.Config{})
			elector := pawlgocron.NewElector(clients[i], "cron", elect.RunOptions{})
			electors[i] = elector
			t.Cleanup(elector.Close)
			scheduler(t, gocron.WithDistributedElector(elector), time.Minute, 0, func(context.Context) {
				ctx, done, err := elector.Context(context.Background())
				if assert.NoError(t, err) {
					defer done()
					_, token, ok := fencing.FromContext(ctx)
					assert.True(t, ok && token > 0)
					ran <- i
				}
			})
		}
		first := <-ran
		assert.Equal(t, first, <-ran, "as long as it lives")
		etcd.CutClient(clients[first])
		second := <-ran
		assert.NotEqual(t, first, second)
		assert.ErrorIs(t, electors[first].IsLeader(t.Context()), pawlgocron.ErrNotLeader)
		assert.Equal(t, second, <-ran)
		electors[second].Close()
		assert.Error(t, electors[second].IsLeader(t.Context()))
		etcd.HealClient(clients[first])
		assert.NotEqual(t, second, <-ran)
	})
}

func TestAnElectorWithBadArgumentsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := pawlgocron.NewElector(pawltest.New(t).Client(t, pawl.Config{}), "", elect.RunOptions{})
		synctest.Wait()
		err := e.IsLeader(t.Context())
		require.Error(t, err)
		assert.False(t, errors.Is(err, pawlgocron.ErrNotLeader), err)
		_, _, again := e.Context(t.Context())
		assert.Equal(t, err, again)
		e.Close()
	})
}
