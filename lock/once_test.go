package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
)

const recordKey = "//pawl/once/name"

// firing is before the bubble begins.
var firing = time.Date(1999, 12, 30, 3, 4, 5, 0, time.UTC)

// job returns work for Once, which counts its calls.
func job(n *atomic.Int64, err error) func(context.Context, *lock.Held) error {
	return func(context.Context, *lock.Held) error { n.Add(1); return err }
}

func TestOfManyWhoRunOnceForOneFiringOneRuns(t *testing.T) {
	for _, first := range []bool{false, true} {
		inBubble(t, func(w *fixture) {
			var n, ran atomic.Int64
			done := make(chan struct{})
			for range 10 {
				c := w.client(pawl.Config{})
				go func() { // ends with its run
					defer func() { done <- struct{}{} }()
					did, err := lock.New(c, "name", lock.Options{RecordFirst: first}).Once(w.Context(), firing, job(&n, nil))
					assert.NoError(w, err)
					if did {
						ran.Add(1)
					}
				}()
			}
			for range 10 {
				<-done
			}
			assert.Equal(w, []int64{1, 1}, []int64{n.Load(), ran.Load()})
			assert.Equal(w, "1999-12-30T03:04:05Z", string(w.f.Get(recordKey).Value))
			assert.Zero(w, w.f.Get(recordKey).Lease, "it outlives the session")
			w.clear()
		})
	}
}

func TestOnceRunsForALaterTimeAndNotForAnEarlierOne(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var n atomic.Int64
		m := lock.New(w.spare, "name", lock.Options{})
		for i, c := range []struct {
			at  time.Time
			ran bool
		}{
			{firing, true}, {firing, false}, {firing.Add(-time.Hour), false}, {firing.In(time.FixedZone("", 3600)), false},
			{firing.Add(1), true}, {firing, false}, {firing.Add(time.Minute), true},
		} {
			ran, err := m.Once(w.Context(), c.at, job(&n, nil))
			require.NoError(w, err)
			assert.Equal(w, c.ran, ran, "call %d", i)
		}
		assert.EqualValues(w, 3, n.Load())
	})
}

// A recorded run costs one read: no session, no lock.
func TestOnceOfARecordedRunIsARead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var n atomic.Int64
		ran, err := lock.New(w.spare, "name", lock.Options{}).Once(w.Context(), firing, job(&n, nil))
		require.NoError(w, err)
		require.True(w, ran)
		h := w.acquire(w.session()) // Once would wait for it
		c := w.client(pawl.Config{})
		synctest.Wait()
		before, rev := w.f.Counts(), w.f.Revision()
		ran, err = lock.New(c, "name", lock.Options{}).Once(w.Context(), firing, job(&n, nil))
		require.NoError(w, err)
		assert.False(w, ran)
		received := w.f.Counts().Since(before).Received
		assert.Equal(w, 1, received["Txn"]+received["Range"])
		assert.Zero(w, received["LeaseGrant"])
		assert.Equal(w, rev, w.f.Revision())
		w.release(h)
	})
}

func TestAtLeastOnceRunsAgainAfterAFailureAndAtMostOnceDoesNot(t *testing.T) {
	for _, first := range []bool{false, true} {
		inBubble(t, func(w *fixture) {
			var n atomic.Int64
			failure := errors.New("the job failed")
			m := lock.New(w.spare, "name", lock.Options{RecordFirst: first})
			ran, err := m.Once(w.Context(), firing, job(&n, failure))
			assert.ErrorIs(w, err, failure)
			assert.True(w, ran)
			assert.Equal(w, first, w.f.Get(recordKey) != nil)
			ran, err = m.Once(w.Context(), firing, job(&n, nil))
			assert.NoError(w, err)
			assert.Equal(w, !first, ran)
			assert.PanicsWithValue(w, "ouch", func() {
				_, _ = m.Once(w.Context(), firing.Add(1), func(context.Context, *lock.Held) error { panic("ouch") })
			})
			ran, err = m.Once(w.Context(), firing.Add(1), job(&n, nil))
			assert.NoError(w, err)
			assert.Equal(w, !first, ran)
			w.clear()
		})
	}
}

// A run that lost its lock is not recorded, and one that comes late from a former holder
// does not replace a later record.
func TestOnceRecordsOnlyUnderItsLock(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := lock.New(w.spare, "name", lock.Options{})
		var n atomic.Int64
		ran, err := m.Once(w.Context(), firing, func(_ context.Context, h *lock.Held) error {
			w.f.Delete(h.Key())
			other, err := lock.New(w.client(pawl.Config{}), "name", lock.Options{}).Once(w.Context(), firing.Add(time.Hour), job(&n, nil))
			assert.NoError(w, err)
			assert.True(w, other)
			return nil
		})
		assert.True(w, ran)
		assert.ErrorIs(w, err, lock.ErrLost)
		w.oneCause(lock.ErrKeyDeleted, err)
		assert.Equal(w, "1999-12-30T04:04:05Z", string(w.f.Get(recordKey).Value))
	})
}

// The guard alone stops a holder that lost the lock, if nobody else has run meanwhile.
func TestARunThatLostItsLockIsNotRecorded(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ran, err := lock.New(w.spare, "name", lock.Options{}).Once(w.Context(), firing, func(_ context.Context, h *lock.Held) error {
			w.f.Inject(quietWatches) // it does not learn of it
			w.f.Delete(h.Key())
			return nil
		})
		assert.True(w, ran)
		assert.ErrorIs(w, err, kv.ErrFenced)
		assert.Nil(w, w.f.Get(recordKey))
	})
}

// If the answer to the record's write is lost, a read settles it. The job is neither run again nor
// reported as failed.
func TestARecordWhoseAnswerIsLostIsSettled(t *testing.T) {
	for name, lose := range map[string]etcdfake.Rule{
		"applied":     {Op: "transaction", Err: status.Error(codes.Unavailable, "connection lost")},
		"not applied": {Op: "transaction", Lose: true, Err: status.Error(codes.Unavailable, "connection lost")},
	} {
		for _, first := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					lose := lose
					lose.Times = 1
					lost := w.f.Inject(lose)
					var n atomic.Int64
					m := lock.New(w.spare, "name", lock.Options{RecordFirst: first})
					ran, err := m.Once(w.Context(), firing, job(&n, nil))
					require.NoError(w, err)
					assert.True(w, ran)
					ran, err = m.Once(w.Context(), firing, job(&n, nil))
					require.NoError(w, err)
					assert.False(w, ran)
					assert.EqualValues(w, 1, n.Load())
					assert.Equal(w, 1, lost.Hits())
					w.clear()
				})
			})
		}
	}
}

// A job that uses all of its context's time is recorded in the time that is left for a release.
func TestAJobThatUsesAllItsTimeIsRecorded(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		ran, err := lock.New(w.spare, "name", lock.Options{}).Once(ctx, firing, func(ctx context.Context, _ *lock.Held) error {
			<-ctx.Done()
			return nil
		})
		assert.NoError(w, err)
		assert.True(w, ran)
		assert.NotNil(w, w.f.Get(recordKey))
	})
}

func TestOnceEndsWithItsContextWhileNobodyAnswers(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		began := time.Now()
		ran, err := lock.New(w.spare, "name", lock.Options{}).Once(ctx, firing, func(context.Context, *lock.Held) error {
			w.f.BlackHole()
			return nil
		})
		assert.True(w, ran)
		assert.ErrorIs(w, err, kv.ErrUnknown, "the run may be recorded")
		assert.LessOrEqual(w, time.Since(began), 1100*time.Millisecond)
		w.f.Heal()
	})
}

// A full disk answers at once, and never says whether it has applied. The record is sent again
// after pauses, and then given up, whether or not the context ends.
func TestARecordWhoseOutcomeStaysUnknownIsGivenUpAfterPauses(t *testing.T) {
	inBubble(t, func(w *fixture) {
		record := w.f.Inject(etcdfake.Rule{Op: "transaction", Lose: true, Err: rpctypes.ErrGRPCNoSpace, Times: 1000})
		began := time.Now()
		ran, err := lock.New(w.spare, "name", lock.Options{}).Once(context.Background(), firing, job(new(atomic.Int64), nil))
		assert.True(w, ran)
		assert.ErrorIs(w, err, kv.ErrUnknown, "the run may be recorded")
		assert.Less(w, record.Hits(), 40)
		assert.Less(w, time.Since(began), time.Minute)
	})
}

func TestOnceRefusesWhatMakesNoSense(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var n atomic.Int64
		m := lock.New(w.spare, "name", lock.Options{})
		_, err := m.Once(w.Context(), time.Time{}, job(&n, nil))
		assert.ErrorContains(w, err, `lock: once "name": the time is zero`)
		for _, at := range []time.Time{time.Unix(946_684_800_000, 0), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))} {
			_, err = m.Once(w.Context(), at, job(&n, nil))
			assert.ErrorContains(w, err, fmt.Sprintf("the time is in the year %d", at.UTC().Year()))
		}
		for _, at := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)} {
			_, err = lock.New(w.spare, "other", lock.Options{}).Once(w.Context(), at, func(context.Context, *lock.Held) error { return nil })
			assert.NoError(w, err)
		}
		_, err = m.Once(w.Context(), firing, nil)
		assert.ErrorContains(w, err, "nil function")
		_, err = lock.New(w.spare, "", lock.Options{}).Once(w.Context(), firing, job(&n, nil))
		assert.ErrorContains(w, err, "empty name")
		w.f.Put(recordKey, "yesterday", 0)
		_, err = m.Once(w.Context(), firing, job(&n, nil))
		assert.ErrorContains(w, err, "holds no time, but \"yesterday\": put the time of the last run there with pawl runs --set, or delete the key")
		assert.Zero(w, n.Load())
	})
}

// What somebody else has recorded meanwhile counts as the record of this run only if it covers its time.
func TestAnEarlierRecordIsNotTakenForTheRunsOwn(t *testing.T) {
	for after, says := range map[time.Duration]string{-time.Hour: "somebody else has written", 0: "", time.Hour: ""} {
		inBubble(t, func(w *fixture) {
			other := firing.Add(after).Format(time.RFC3339)
			ran, err := lock.New(w.spare, "name", lock.Options{}).Once(w.Context(), firing, func(context.Context, *lock.Held) error {
				w.f.Put(recordKey, other, 0)
				return nil
			})
			assert.True(w, ran)
			if says == "" {
				assert.NoError(w, err)
			} else {
				assert.ErrorContains(w, err, says)
			}
			assert.Equal(w, other, string(w.f.Get(recordKey).Value))
		})
	}
}
