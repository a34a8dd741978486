package elect_test

import (
	"context"
	"fmt"
	"sync"
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
	"github.com/pawl-locks/pawl/lease"
)

// A leader that hangs loses its term, the next candidate leads at once, and who runs the program learns from
// Notify and from the log which function hangs. Run waits for it all the same.
//
// rule: H6
func TestALeaderThatHangsIsReplaced(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("StopInJeopardy: %v", first), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				var events []elect.Event
				log := new(inmemory.Log)
				o := quick(&events)
				o.Stall, o.StopInJeopardy = 30*time.Second, first
				hung, freed := make(chan time.Time, 1), make(chan struct{})
				w.background(func(ctx context.Context) {
					_ = elect.Run(ctx, w.clientWith(pawl.Config{Logger: log.Logger()}), "e", o, func(ctx context.Context, tm *elect.Term) error {
						if tm.Token() != events[0].Token {
							<-ctx.Done()
							return nil
						}
						for range 10 {
							time.Sleep(20 * time.Second)
							require.NoError(t, tm.Progress())
						}
						hung <- time.Now()
						<-freed
						assert.ErrorIs(t, context.Cause(ctx), elect.ErrStalled)
						assert.ErrorIs(t, tm.Progress(), elect.ErrStalled)
						return nil
					})
				})
				synctest.Wait()
				second := w.campaign(w.session(), "e", "b")
				assert.Less(t, time.Since((<-hung).Add(30*time.Second)), time.Second, "after the Stall")
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, []elect.Kind{elect.Elected, elect.Stalled}, kinds(events))
				assert.Equal(t, 1, causes(events[1].Err), "%v", events[1].Err)
				assert.ErrorIs(t, events[1].Err, elect.ErrStalled)
				assert.ErrorIs(t, events[1].Err, elect.ErrLost)
				assert.Equal(t, events[0].Token, events[1].Token)
				assert.Contains(t, events[1].Err.Error(), "elect_test.TestALeaderThatHangsIsReplaced.")
				assert.Equal(t, 1, log.Warnings("runs=[github.com/pawl-locks/pawl/elect_test.TestALeaderThatHangsIsReplaced."))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				assert.Len(t, events, 2, "lead has not returned")
				assert.NoError(t, second.Err())
				close(freed)
				synctest.Wait()
				require.Equal(t, []elect.Kind{elect.Elected, elect.Stalled, elect.Lost}, kinds(events))
				assert.ErrorIs(t, events[2].Err, elect.ErrStalled)
				require.NoError(t, second.Resign(w.ctx))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Equal(t, elect.Elected, kinds(events)[3], "it campaigns again")
			})
		})
	}
}

// A program that exits at Stalled leaves nothing behind that the next candidate would have to wait for. If the key
// cannot be deleted, Stalled does not wait for it for long, and Lost not at all once lead has returned.
//
// rule: H6
func TestAProgramThatExitsAtStalledKeepsNobodyWaiting(t *testing.T) {
	for _, how := range []string{"deleted", "no server", "lead returns"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				o := quick(nil)
				o.Stall = 30 * time.Second
				freed, terms := make(chan struct{}), 0
				var mu sync.Mutex // guards what follows: Notify(Stalled) comes from another goroutine than lead
				began := time.Now()
				var stalled, lost time.Duration
				var left []string
				o.Notify = func(ev elect.Event) {
					mu.Lock()
					defer mu.Unlock()
					switch ev.Kind {
					case elect.Stalled:
						stalled, left = time.Since(began), w.Keys("e/")
					case elect.Lost:
						lost = time.Since(began)
					}
				}
				if how != "deleted" {
					w.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Hang: true})
				}
				w.background(func(ctx context.Context) {
					_ = elect.Run(ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
						if terms++; terms > 1 {
							<-ctx.Done()
							return nil
						}
						mu.Lock()
						began = time.Now()
						mu.Unlock()
						<-freed
						return nil
					})
				})
				if how == "lead returns" {
					time.AfterFunc(30*time.Second+300*time.Millisecond, func() { close(freed) })
				}
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				switch how {
				case "deleted":
					assert.Empty(t, left)
					assert.Less(t, stalled, 30*time.Second+100*time.Millisecond)
				case "no server":
					assert.Equal(t, 31*time.Second, stalled)
				default:
					assert.Equal(t, 30*time.Second+300*time.Millisecond, stalled)
					assert.Equal(t, stalled, lost)
				}
				if how != "lead returns" {
					close(freed)
				}
			})
		})
	}
}

// The time counts from lead's beginning: neither the wait, nor Notify, nor Eligible counts.
//
// rule: H6
func TestATermsStallCountsFromLead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		first := w.campaign(w.session(), "e", "a")
		time.AfterFunc(5*time.Minute, func() { _ = first.Resign(w.ctx) })
		o := quick(nil)
		o.Stall = 10 * time.Second
		o.Notify = func(elect.Event) { time.Sleep(time.Minute) }
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			began := time.Now()
			time.Sleep(10*time.Second - 1)
			assert.NoError(t, ctx.Err())
			assert.Equal(t, time.Nanosecond, time.Until(tm.Deadline()))
			assert.NoError(t, tm.Progress())
			progressed := time.Now()
			<-ctx.Done()
			assert.Equal(t, 10*time.Second, time.Since(progressed))
			assert.Less(t, time.Since(began), 20*time.Second)
			return nil
		})
		assert.NoError(t, err)
	})
}

// A Stall that is shorter than a third of the validity is no jeopardy.
func TestAShortStallIsNoJeopardy(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := quick(nil)
		o.Stall, o.StopInJeopardy, o.Session = time.Second, true, lease.Options{TTL: time.Minute}
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			for range 20 {
				time.Sleep(900 * time.Millisecond)
				require.NoError(t, tm.Progress())
				require.NoError(t, ctx.Err())
			}
			return nil
		})
		assert.NoError(t, err)
	})
}

// A Notify that does not return does not keep Run from ending the session of a lead that overstays, and no
// other call of Notify comes meanwhile.
//
// rule: H6
func TestANotifyThatHangsHoldsUpNoOverrun(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var under, most, terms atomic.Int64
		o := quick(nil)
		o.Stall, o.Overrun = 10*time.Second, time.Minute
		freed := make(chan struct{})
		o.Notify = func(ev elect.Event) {
			most.Store(max(most.Load(), under.Add(1)))
			defer under.Add(-1)
			if ev.Kind == elect.Stalled {
				<-freed
			}
		}
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms.Add(1) == 2 {
				return nil
			}
			<-ctx.Done()
			lost := time.Now()
			select {
			case <-tm.Session().Done():
			case <-time.After(5 * time.Minute):
			}
			assert.Equal(t, time.Minute, time.Since(lost))
			time.AfterFunc(time.Minute, func() { close(freed) })
			return nil
		})
		assert.NoError(t, err)
		assert.EqualValues(t, 1, most.Load())
		assert.EqualValues(t, 2, terms.Load())
	})
}

// A lead that returns when its context ends has not hung: Notify gets Lost, after a Stalled or without.
func TestALeadThatReturnsAtTheStallLosesItsTermOnly(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var events []elect.Event
		o := quick(&events)
		o.Stall = 10 * time.Second
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 3 {
				return nil
			}
			<-ctx.Done()
			return nil
		})
		assert.NoError(t, err)
		lost := 0
		for _, ev := range events {
			if ev.Kind == elect.Lost {
				lost++
				assert.ErrorIs(t, ev.Err, elect.ErrStalled)
			}
		}
		assert.Equal(t, 2, lost)
		assert.Equal(t, 3, terms)
	})
}

func TestRunRefusesAStallBelowASecond(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for _, bad := range []time.Duration{-1, time.Second - 1} {
			err := elect.Run(w.ctx, w.client(), "e", elect.RunOptions{Stall: bad}, func(context.Context, *elect.Term) error { return nil })
			assert.EqualError(t, err, fmt.Sprintf(`elect: run "e": RunOptions.Stall is %v, want 0 or at least 1s`, bad))
		}
	})
}

// Without a Stall Progress is Err, also of a term that was not won by Run, and of none.
func TestATermsProgressWithoutAStallIsErr(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tm := w.campaign(w.session(), "e", "a")
		time.Sleep(time.Minute)
		assert.NoError(t, tm.Progress())
		require.NoError(t, tm.Resign(w.ctx))
		assert.Equal(t, tm.Err(), tm.Progress())
		var none *elect.Term
		assert.Equal(t, none.Err(), none.Progress())
	})
}

// A campaign of one's own can have a Stall too, which counts from the election. The candidate's owner key, and
// so the queue, shows it, and the value that observers see is only the candidate's.
//
// rule: H6
func TestACampaignCanHaveAStall(t *testing.T) {
	for _, owner := range []string{"", "ann"} {
		inBubble(t, func(w *fixture) {
			s, err := w.client().NewSession(w.ctx, lease.Options{Owner: "daemon"})
			require.NoError(t, err)
			e := elect.New(s, "e", elect.Options{Stall: 30 * time.Second, Owner: owner})
			first := w.campaign(w.session(), "e", "a")
			time.AfterFunc(5*time.Minute, func() { _ = first.Resign(w.ctx) })
			tm, err := e.Campaign(w.ctx, []byte("v"))
			require.NoError(t, err)
			won := time.Now()
			q, err := e.Queue(w.ctx)
			require.NoError(t, err)
			require.Len(t, q, 1)
			assert.Equal(t, 30*time.Second, q[0].Stall)
			assert.Equal(t, map[bool]string{true: "daemon", false: owner}[owner == ""], q[0].Owner)
			assert.Equal(t, "v", string(w.Get(tm.Key()).Value))
			time.Sleep(20 * time.Second)
			require.NoError(t, tm.Progress())
			<-tm.Done()
			assert.Equal(t, 50*time.Second, time.Since(won))
			assert.ErrorIs(t, tm.Err(), elect.ErrStalled)
			assert.Equal(t, 1, causes(tm.Err()))
			time.Sleep(time.Second)
			assert.Empty(t, w.Keys("e/"))
			assert.Empty(t, w.owned())
			_, err = elect.New(s, "e", elect.Options{Stall: time.Millisecond}).Campaign(w.ctx, nil)
			assert.ErrorContains(t, err, "Options.Stall is 1ms, want 0 or at least 1s")
		})
	}
}

// The queue shows the Stall of a Run's candidates.
func TestARunsStallIsShown(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := quick(nil)
		o.Stall, o.Session.Owner = time.Minute, "ann"
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			q, err := elect.New(w.client(), "e", elect.Options{}).Queue(w.ctx)
			require.NoError(t, err)
			require.Len(t, q, 1)
			assert.Equal(t, time.Minute, q[0].Stall)
			assert.Equal(t, "ann", q[0].Owner)
			return nil
		})
		assert.NoError(t, err)
		assert.Empty(t, w.Keys(""))
	})
}
