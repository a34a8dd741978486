package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/observe"
)

// skipsOwn reports whether the acquisition's enqueue leaves the session's keys out of what it reads.
func (w *fixture) skipsOwn(c *Acquisition) bool {
	var read []string
	for _, o := range c.enqueueTxn(Request{}, c.isAlone()).Success[1:] {
		r := o.GetRequestRange()
		read = append(read, string(r.Key)+" to "+string(r.RangeEnd))
	}
	end := c.queues[0].Prefix[:len(c.queues[0].Prefix)-1] + "0"
	if len(read) == 1 {
		assert.Equal(w, []string{c.queues[0].Prefix + " to " + end}, read)
		return false
	}
	own := keys.QueueKey{Lease: c.s.ID(), N: 1}.In(c.queues[0].Prefix)
	own = own[:len(own)-len("-1")]
	assert.Equal(w, []string{c.queues[0].Prefix + " to " + own + "-", own + ". to " + end}, read)
	return true
}

// A2: the keys that an enqueue does not read are only keys of its session that are gone for good.
// rule: A2
func TestOnlyALoneAcquisitionSkipsItsSessionsKeys(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		first := w.began(s, w.queue())
		assert.True(w, w.skipsOwn(first))
		second := w.began(s, w.queue())
		assert.False(w, w.skipsOwn(second), "the first one's key may be there")
		assert.False(w, w.skipsOwn(first), "and so may the second one's")
		isAbsent(first)
		isAbsent(first) // is not counted again
		assert.True(w, w.skipsOwn(second))
		isAbsent(second)
		assert.False(w, w.skipsOwn(second), "which may have been before the one that queries now")

		held := w.acquire(s)
		third := w.began(s, w.queue())
		assert.False(w, w.skipsOwn(third), "a held key is there")
		isAbsent(third)
		other, err := New("", "other", false)
		require.NoError(w, err)
		assert.True(w, w.skipsOwn(w.began(s, other)), "on another queue")
		w.release(held)
		assert.True(w, w.skipsOwn(w.began(s, w.queue())), "a released key is gone")

		verbatim, err := New("", "etcd's", true)
		require.NoError(w, err)
		assert.False(w, w.skipsOwn(w.began(s, verbatim)), "other names' keys may lie among the session's")
		assert.False(w, w.skipsOwn(w.began(w.successor(s), w.queue())), "nobody knows what the predecessor holds")
	})
}

// A2: if the second of two acquisitions of one session overtakes the first on its way, they do not
// both hold.
// rule: A2
func TestAnAcquisitionThatIsOvertakenByOneOfItsOwnSessionWaits(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
		slow := w.waiting(s)
		fast := w.acquire(s)
		time.Sleep(time.Second)
		require.False(w, isClosed(slow.done), "both hold")
		w.held(fast)
		w.release(fast)
		w.release(slow.won())
		w.clear()
	})
}

// The same if the one that overtook is gone again before the slow one's answer comes.
func TestAnAcquisitionThatWasOvertakenAndStandsAloneHolds(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
		slow := w.waiting(s)
		w.release(w.acquire(s))
		w.release(slow.won())
		w.clear()
	})
}

// A2: a queue is read on both sides of the session's keys.
func TestALoneAcquisitionWaitsForTheLastOfTheOthers(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		for _, others := range [][]string{{"0"}, {"~"}, {"0", "~"}, {"~", "0"}} {
			for _, key := range others {
				w.f.Put("name/"+key, "", 0)
			}
			a := w.waiting(s)
			last := others[len(others)-1]
			if len(others) == 2 {
				w.f.Delete("name/" + others[0])
				time.Sleep(time.Second)
				require.False(w, isClosed(a.done), "%s is before it", last)
			}
			w.f.Delete("name/" + last)
			w.release(a.won())
		}
		w.clear()
	})
}

// A2: if two calls of Release run at once, the later one does not remove another key of the session
// from the count.
func TestOfTwoReleasesAtOnceTheLateOneCountsNothingTwice(t *testing.T) {
	t.Cleanup(func() { clock.SetSource(nil) })
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		first := w.acquire(s)
		second := w.waiting(s)
		var once atomic.Bool
		clock.SetSource(func(time.Time) time.Duration {
			if once.CompareAndSwap(false, true) { // the call below reads the clock, and nobody else
				w.release(first)
				second.won()
			}
			return 0
		})
		require.NoError(w, first.Release(w.Context(), errGivenBack))
		require.True(w, isClosed(second.done))
		third := w.waiting(s)
		w.release(second.won())
		w.release(third.won())
		w.clear()
	})
}

// A2: the same for an overwritten key, which two remove.
// rule: A2
func TestAnAcquisitionThatHasEndedIsNotCountedAgain(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		first, second := w.began(s, w.queue()), w.began(s, w.queue())
		isAbsent(first)
		isUnwanted(first)
		isAbsent(first)
		assert.False(w, w.skipsOwn(w.began(s, w.queue())), "the second one's key may be there")
		isAbsent(second)
	})
}

// A session stops counting a key when somebody deleted it or wrote to it and it is gone.
func TestAKeyThatWasLostIsSkipped(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		for how, armed := range map[string]time.Duration{"found by the watch": time.Second, "found by Confirm": 0} {
			t.Run(name+", "+how, func(t *testing.T) {
				inBubble(t, etcdfake.Options{}, func(w *fixture) {
					s := w.session()
					c := w.acquire(s)
					time.Sleep(armed)
					lose(w, c.Key())
					synctest.Wait()
					assert.ErrorIs(w, c.Confirm(w.Context()), ErrLost)
					time.Sleep(time.Second)
					require.Empty(w, w.keys())
					assert.True(w, w.skipsOwn(w.began(s, w.queue())))
				})
			})
		}
	}
}

// An acquisition that another of its session may have overtaken does not say that nobody was ahead
// of it.
func TestAnOvertakenAcquisitionDoesNotKnowItsPosition(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		ahead := make(chan int, 2)
		s := w.sessionWith(pawl.Config{Observer: observe.Func(func(_ context.Context, ev observe.Event) {
			if ev, ok := ev.(observe.LockEnqueued); ok {
				ahead <- ev.Ahead
			}
		})})
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
		slow := w.waiting(s)
		fast := w.acquire(s)
		assert.Equal(w, 0, <-ahead)
		assert.Equal(w, -1, <-ahead)
		w.release(fast)
		w.release(slow.won())
		w.clear()
	})
}
