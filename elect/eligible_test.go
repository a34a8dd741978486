package elect_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// leads makes a candidate that runs until the test's end. leading is true while its lead runs.
func (w *fixture) leads(eligible func(context.Context) bool, notify func(elect.Event)) (leading *atomic.Bool, stop func()) {
	leading = &atomic.Bool{}
	c := w.client()
	stop = w.background(func(ctx context.Context) {
		_ = elect.Run(ctx, c, "e", elect.RunOptions{Eligible: eligible, Notify: notify}, func(ctx context.Context, _ *elect.Term) error {
			leading.Store(true)
			defer leading.Store(false)
			<-ctx.Done()
			return nil
		})
	})
	time.Sleep(time.Second)
	return leading, stop
}

// A standby that is no longer eligible when its turn comes leaves the queue to the one behind it,
// whenever it became ill.
func TestAStandbyThatIsNotEligibleDoesNotLead(t *testing.T) {
	for name, ill := range map[string]time.Duration{
		"long before its turn":      time.Minute,
		"in the moment of its turn": 0,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				var healthy atomic.Bool
				healthy.Store(true)
				a, stopA := w.leads(nil, nil)
				b, _ := w.leads(func(context.Context) bool { return healthy.Load() }, func(ev elect.Event) { assert.NotEqual(w.t, elect.Retrying, ev.Kind, "%v", ev.Err) })
				c, stopC := w.leads(nil, nil)
				require.True(t, a.Load())
				require.Len(t, w.Keys("e/"), 3)
				healthy.Store(false)
				time.Sleep(ill)
				if ill > 0 {
					assert.Len(t, w.Keys("e/"), 2, "it has left the queue while it waited")
				}
				stopA()
				time.Sleep(10 * time.Second)
				assert.False(t, b.Load())
				assert.True(t, c.Load())
				healthy.Store(true)
				time.Sleep(10 * time.Second)
				require.Len(t, w.Keys("e/"), 2, "it waits again")
				stopC()
				time.Sleep(10 * time.Second)
				assert.True(t, b.Load())
			})
		})
	}
}

// A term that is declined is no term: no event says that it was won, and its key is deleted.
func TestADeclinedTermIsResignedAndNotReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		asked := 0
		var log []elect.Event
		o := quick(&log)
		o.Eligible = func(context.Context) bool { asked++; return asked%2 == 1 }
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		err := elect.Run(ctx, w.client(), "e", o, func(context.Context, *elect.Term) error {
			t.Error("lead is called though the candidate is not eligible")
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Greater(t, asked, 4)
		assert.Empty(t, log)
		synctest.Wait()
		assert.Empty(t, w.Keys("e/"))
	})
}

// A panic of Eligible while Run waits leaves nothing in the queue.
func TestAPanicOfEligibleLeavesTheQueue(t *testing.T) {
	for name, wait := range map[string]bool{"while it waits": true, "after it was elected": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				var term *elect.Term
				if wait {
					term = w.campaign(w.session(), "e", "")
				}
				asked := 0
				assert.PanicsWithValue(t, "ouch", func() {
					_ = elect.Run(w.ctx, w.client(), "e", elect.RunOptions{Eligible: func(context.Context) bool {
						if asked++; asked == 2 {
							panic("ouch")
						}
						return true
					}}, func(context.Context, *elect.Term) error { return nil })
				})
				time.Sleep(time.Second)
				if wait {
					assert.Equal(t, []string{term.Key()}, w.Keys("e/"))
					return
				}
				assert.Empty(t, w.Keys("e/"))
			})
		})
	}
}

// Who may not campaign is told so once in the log, and in the error that ends the call. No try costs a
// lease.
func TestRunWithoutPermissionGrantsNoLeaseForEachTry(t *testing.T) {
	for name, access := range map[string][]etcdfake.Access{
		"nothing":                {},
		"not the sessions' keys": {{Prefix: "e/", Read: true, Write: true}},
		"not the name's keys":    {{Prefix: "//pawl/", Read: true, Write: true}},
		"the name's, to read":    {{Prefix: "//pawl/", Read: true, Write: true}, {Prefix: "e/", Read: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				w.EnableAuth("root")
				w.SetUser("u", "p", access...)
				log := &inmemory.Log{}
				c := w.clientWith(pawl.Config{Username: "u", Password: "p", Logger: log.Logger()})
				before := w.Counts()
				ctx, cancel := context.WithTimeout(w.ctx, time.Hour)
				defer cancel()
				lead := func(context.Context, *elect.Term) error { return errors.New("led") }
				err := elect.Run(ctx, c, "e", elect.RunOptions{}, lead)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "permission denied")
				assert.LessOrEqual(t, w.Counts().Since(before).Received["LeaseGrant"], 1)
				assert.Equal(t, 1, log.Warnings("election fails and is tried again"), "%s", log)
				assert.Zero(t, log.Warnings("works again"))

				w.SetUser("u", "p", etcdfake.Access{Prefix: "e/", Read: true, Write: true}, etcdfake.Access{Prefix: "//pawl/", Read: true, Write: true})
				assert.EqualError(t, elect.Run(w.ctx, c, "e", elect.RunOptions{}, lead), "led")
			})
		})
	}
}

// A candidate that waits again after a failure says so, though nobody elects it for long.
func TestAFailureIsLoggedWhenItBeginsAndWhenTheCandidateWaitsAgain(t *testing.T) {
	for _, eligible := range []func(context.Context) bool{nil, func(context.Context) bool { return true }} {
		inBubble(t, func(w *fixture) {
			w.campaign(w.session(), "e", "")
			log := &inmemory.Log{}
			c := w.clientWith(pawl.Config{Logger: log.Logger()})
			w.Cut()
			stop := w.background(func(ctx context.Context) {
				_ = elect.Run(ctx, c, "e", elect.RunOptions{Eligible: eligible}, func(context.Context, *elect.Term) error { return nil })
			})
			time.Sleep(5 * time.Minute)
			assert.Equal(t, 1, log.Warnings("election fails and is tried again"), "%s", log)
			w.Heal()
			time.Sleep(time.Minute)
			assert.Equal(t, 1, log.Warnings("election works again"), "%s", log)
			stop()
		})
	}
}
