package elect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// quick are options for tests that lose many terms.
func quick(log *[]elect.Event) elect.RunOptions {
	o := elect.RunOptions{MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second, Session: lease.Options{TTL: 6 * time.Second}}
	if log != nil {
		o.Notify = func(ev elect.Event) { *log = append(*log, ev) }
	}
	return o
}

func kinds(log []elect.Event) (out []elect.Kind) {
	for _, ev := range log {
		out = append(out, ev.Kind)
	}
	return out
}

// background runs f until the end of the test, or until f returns.
func (w *fixture) background(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx at the latest
		defer close(done)
		f(ctx)
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

func TestRunReturnsWhatLeadReturnsDuringItsTerm(t *testing.T) {
	for _, want := range []error{nil, errors.New("enough")} {
		inBubble(t, func(w *fixture) {
			var log []elect.Event
			c := w.client()
			var token fencing.Token
			err := elect.Run(w.ctx, c, "e", quick(&log), func(ctx context.Context, tm *elect.Term) error {
				resource, tok, ok := fencing.FromContext(ctx)
				assert.True(t, ok)
				assert.Equal(t, "e", resource)
				assert.Equal(t, tm.Token(), tok)
				assert.NoError(t, ctx.Err())
				assert.NoError(t, tm.Err())
				token = tok
				return want
			})
			assert.True(t, err == want, "%v", err)
			assert.Equal(t, []elect.Event{{Kind: elect.Elected, Term: 1, Token: token}, {Kind: elect.Resigned, Term: 1, Token: token}}, log)
			assert.Empty(t, w.Keys(""))
			assert.Empty(t, w.Leases())
		})
	}
}

// Hazard E9: Run leads again after each of twenty kills of the lease, whatever lead returned.
func TestRunLeadsAgainAfterEachKillOfItsLease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log []elect.Event
		var last fencing.Token
		n := 0
		err := elect.Run(w.ctx, w.client(), "e", quick(&log), func(ctx context.Context, tm *elect.Term) error {
			assert.Greater(t, tm.Token(), last)
			last = tm.Token()
			if n++; n > 20 {
				return nil
			}
			w.Revoke(w.Get(tm.Key()).Lease)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), elect.ErrLost)
			assert.ErrorIs(t, context.Cause(ctx), lease.ErrRevoked)
			if n%2 == 0 {
				return errors.New("dropped")
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, log, 42)
		for i, ev := range log {
			assert.EqualValues(t, i/2+1, ev.Term)
			switch {
			case i%2 == 0:
				assert.Equal(t, elect.Elected, ev.Kind)
			case i == 41:
				assert.Equal(t, elect.Resigned, ev.Kind)
			default:
				assert.Equal(t, elect.Lost, ev.Kind)
				assert.ErrorIs(t, ev.Err, lease.ErrRevoked)
				assert.Equal(t, 1, causes(ev.Err))
			}
		}
		assert.Empty(t, w.Keys(""))
		assert.Empty(t, w.Leases())
	})
}

// Hazards E8, E11: lead's context ends first, then Run waits for lead, and only then does it give up
// the term.
func TestRunStopsLeadBeforeItResigns(t *testing.T) {
	inBubble(t, func(w *fixture) {
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(w.ctx)
		var log []elect.Event
		time.AfterFunc(time.Minute, func() { cancel(why) })
		err := elect.Run(ctx, w.client(), "e", quick(&log), func(ctx context.Context, tm *elect.Term) error {
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), why)
			time.Sleep(3 * time.Second) // winding up
			assert.NoError(t, tm.Err(), "it leads still")
			assert.NotNil(t, w.Get(tm.Key()))
			return errors.New("dropped")
		})
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotContains(t, err.Error(), "dropped")
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Resigned}, kinds(log))
		synctest.Wait()
		assert.Empty(t, w.Keys("e/"))
	})
}

// Run returns what lead returned while it led, even if Run's ctx ends before the resignation is
// complete.
func TestRunsContextThatEndsAfterLeadDoesNotHideWhatLeadReturned(t *testing.T) {
	for _, want := range []error{nil, errors.New("enough")} {
		inBubble(t, func(w *fixture) {
			ctx, cancel := context.WithCancel(w.ctx)
			var log []elect.Event
			err := elect.Run(ctx, w.client(), "e", quick(&log), func(_ context.Context, tm *elect.Term) error {
				w.Inject(etcdfake.Rule{Op: "release", HoldAnswer: time.Second})
				time.AfterFunc(500*time.Millisecond, cancel)
				return want
			})
			assert.Error(t, ctx.Err())
			assert.True(t, err == want, "%v", err)
			assert.Equal(t, []elect.Kind{elect.Elected, elect.Resigned}, kinds(log))
			assert.ErrorIs(t, log[1].Err, kv.ErrUnknown, "it is not confirmed")
		})
	}
}

// lead is not called if ctx ends in the instant of success.
func TestRunsContextThatEndsBeforeLeadIsCalledEndsRun(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithCancel(w.ctx)
		var log []elect.Event
		o := quick(nil)
		o.Notify = func(ev elect.Event) { log = append(log, ev); cancel() }
		err := elect.Run(ctx, w.client(), "e", o, func(context.Context, *elect.Term) error {
			assert.Fail(t, "called after ctx has ended")
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Resigned}, kinds(log))
		synctest.Wait()
		assert.Empty(t, w.Keys("e/"))
	})
}

// late is a context whose deadline passes before it says that it has ended, as on a busy machine.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

func TestADeadlineThatPassesBeforeLeadIsCalledIsNoSuccess(t *testing.T) {
	inBubble(t, func(w *fixture) {
		opts := elect.RunOptions{Notify: func(ev elect.Event) {
			if ev.Kind == elect.Elected {
				time.Sleep(2 * time.Second)
			}
		}}
		err := elect.Run(late{w.ctx, time.Now().Add(time.Second)}, w.client(), "e", opts, func(context.Context, *elect.Term) error {
			assert.Fail(t, "it leads after the deadline")
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestRunReturnsInTimeWhateverTheClusterDoes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithCancel(w.ctx)
		var returned time.Time
		err := elect.Run(ctx, w.client(), "e", quick(nil), func(ctx context.Context, tm *elect.Term) error {
			w.BlackHole()
			cancel()
			returned = time.Now()
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.LessOrEqual(t, time.Since(returned), 100*time.Millisecond)
		w.Heal()
	})
	for name, begin := range map[string]func(w *fixture){
		"waiting for its turn": func(w *fixture) { w.Put("e/other", "", 0) },
		"while nobody answers": func(w *fixture) { w.BlackHole() },
		"in its wait to repeat": func(w *fixture) {
			w.Inject(etcdfake.Rule{Method: "LeaseGrant", Lose: true, Err: status.Error(codes.InvalidArgument, "no")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				c := w.client()
				begin(w)
				ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
				defer cancel()
				begun := time.Now()
				err := elect.Run(ctx, c, "e", elect.RunOptions{}, func(context.Context, *elect.Term) error { return nil })
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(begun), 20*time.Second+100*time.Millisecond)
				w.Heal()
			})
		})
	}
}

func TestAPanicInLeadResignsAndGoesOnUp(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log []elect.Event
		c := w.client()
		var key string
		assert.PanicsWithValue(t, "oh", func() {
			_ = elect.Run(w.ctx, c, "e", quick(&log), func(_ context.Context, tm *elect.Term) error {
				key = tm.Key()
				panic("oh")
			})
		})
		assert.Nil(t, w.Get(key))
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Resigned}, kinds(log))
		assert.Empty(t, w.Leases())
	})
}

func TestGoexitInLeadResigns(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		done := make(chan struct{})
		go func() { // ends with Run's goroutine
			defer close(done)
			_ = elect.Run(w.ctx, c, "e", quick(nil), func(context.Context, *elect.Term) error { runtime.Goexit(); return nil })
		}()
		<-done
		assert.Empty(t, w.Keys(""))
	})
}

// If lead does not return in time, the term is marked lost. Then renewing stops, and the lease ends
// by itself; no request of ours shortens it.
func TestOverrunAbandonsTheLeaseAndLeavesItToEnd(t *testing.T) {
	for _, overrun := range []time.Duration{0, 2 * time.Second} {
		inBubble(t, func(w *fixture) {
			var log []elect.Event
			o := quick(&log)
			o.Overrun = overrun
			want := overrun
			if want == 0 {
				want = o.Session.TTL
			}
			ctx, cancel := context.WithCancel(w.ctx)
			err := elect.Run(ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
				time.Sleep(30 * time.Second)
				cancel()
				<-ctx.Done()
				ended := time.Now()
				<-tm.Done()
				assert.Equal(t, want, time.Since(ended))
				assert.ErrorIs(t, tm.Err(), elect.ErrLost)
				assert.ErrorIs(t, tm.Err(), elect.ErrOverrun)
				assert.NotErrorIs(t, tm.Err(), lease.ErrClosed)
				assert.Equal(t, 1, causes(tm.Err()))
				synctest.Wait()
				before := w.Counts()
				for w.Get(tm.Key()) != nil {
					time.Sleep(10 * time.Millisecond)
				}
				n := w.Counts().Since(before).Received
				assert.Zero(t, n["LeaseKeepAlive"], "not renewed")
				assert.Zero(t, n["LeaseRevoke"], "not revoked")
				assert.Zero(t, n["Txn"], "not resigned")
				assert.Greater(t, time.Since(ended), want+o.Session.TTL/2, "ended by itself")
				time.Sleep(time.Hour)
				return nil
			})
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, []elect.Kind{elect.Elected, elect.Lost}, kinds(log))
			require.ErrorIs(t, log[1].Err, elect.ErrOverrun)
			for _, ch := range w.History() {
				if ch.Deleted {
					assert.NotEqual(t, etcdfake.ByRevoke, ch.Why)
				}
			}
		})
	}
}

// Nor is the lease revoked while lead runs if the session ends by its deadline.
func TestAnExpiredLeaseIsNotRevokedWhileLeadRuns(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log []elect.Event
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", quick(&log), func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			w.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Err: unavailable, Times: 100})
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), lease.ErrExpired)
			w.LiftAll()
			for w.Get(tm.Key()) != nil {
				time.Sleep(10 * time.Millisecond)
			}
			h := w.History()
			assert.Equal(t, etcdfake.ByExpiry, h[len(h)-1].Why)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Lost, elect.Elected, elect.Resigned}, kinds(log))
	})
}

// It is revoked once lead has returned, so that the next candidate need not wait.
func TestAnExpiredLeaseIsRevokedOnceLeadHasReturned(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := quick(nil)
		o.Session.TTL = 60 * time.Second
		terms := 0
		var expired time.Time
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				assert.Less(t, time.Since(expired), time.Second)
				return nil
			}
			w.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Err: unavailable})
			<-ctx.Done()
			w.LiftAll()
			expired = time.Now()
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, terms)
	})
}

func TestAnOverwrittenKeyStaysWhileLeadRunsAndThenGoes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", quick(nil), func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			w.Put(tm.Key(), "foreign", 0)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), elect.ErrKeyOverwritten)
			time.Sleep(5 * time.Second)
			assert.NotNil(t, w.Get(tm.Key()))
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, terms)
		assert.Empty(t, w.Keys("e/"))
	})
}

func TestEligibleIsCalledBeforeEachCampaignAndBeforeLead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		asked, terms := 0, 0
		o := quick(nil)
		o.Eligible = func(context.Context) bool { asked++; return asked%4 == 3 || asked%4 == 0 }
		before := w.Counts()
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			terms++
			assert.Equal(t, 4*terms, asked)
			if terms == 3 {
				return nil
			}
			w.Delete(tm.Key())
			<-ctx.Done()
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, 3, w.Counts().Since(before).Received["LeaseGrant"], "no session while it does not stand")
	})
}

// rule: C8
func TestFailuresAreRetriedWithBoundedWaits(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var at []time.Time
		var log []elect.Event
		o := elect.RunOptions{MinBackoff: time.Second, MaxBackoff: 10 * time.Second, Notify: func(ev elect.Event) {
			log = append(log, ev)
			at = append(at, time.Now())
		}}
		w.Inject(etcdfake.Rule{Method: "LeaseGrant", Times: 12, Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		require.NoError(t, elect.Run(w.ctx, w.client(), "e", o, func(context.Context, *elect.Term) error { return nil }))
		require.Len(t, log, 14)
		for i := range 12 {
			assert.Equal(t, elect.Retrying, log[i].Kind)
			assert.Error(t, log[i].Err)
			wait := at[i+1].Sub(at[i])
			assert.LessOrEqual(t, wait, 10*time.Second+10*time.Millisecond)
			assert.GreaterOrEqual(t, wait, min(time.Second<<i, 10*time.Second)/2)
		}
		assert.EqualValues(t, 1, log[12].Term)
	})
}

// Waits may grow to their maximum during an outage; the end of the outage ends them.
// rule: C8
func TestTheClustersReturnEndsTheWait(t *testing.T) {
	for _, o := range []struct {
		name      string
		fail, end func(c *etcdfake.Cluster)
	}{
		{"cut", (*etcdfake.Cluster).Cut, (*etcdfake.Cluster).Heal},
		{"silent", (*etcdfake.Cluster).BlackHole, (*etcdfake.Cluster).Heal},
		{"without a leader", func(c *etcdfake.Cluster) { c.Member(1).Isolate(); c.Member(2).Isolate() }, (*etcdfake.Cluster).Heal},
	} {
		for i := range testscale.Of(2, 30) {
			t.Run(fmt.Sprint(o.name, " ", i), func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					c := w.client()
					o.fail(w.Cluster)
					led := make(chan time.Time, 1)
					w.background(func(ctx context.Context) {
						_ = elect.Run(ctx, c, "e", elect.RunOptions{}, func(context.Context, *elect.Term) error {
							led <- time.Now()
							return nil
						})
					})
					time.Sleep(2*time.Minute + time.Duration(i)*1700*time.Millisecond)
					back := time.Now()
					o.end(w.Cluster)
					assert.Less(t, (<-led).Sub(back), 6*time.Second, "reconnecting, asking, and a jitter of at most 1 s")
				})
			})
		}
	}
}

// The wait after a term is the shortest again, whatever failed before it, and half of each wait is
// random.
func TestTheWaitAfterATermIsTheShortestAgainAndJittered(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var lost time.Time
		var waits []time.Duration
		o := elect.RunOptions{MinBackoff: time.Second, Notify: func(ev elect.Event) {
			switch {
			case ev.Kind == elect.Lost:
				lost = time.Now()
			case ev.Kind == elect.Elected && ev.Term > 1:
				waits = append(waits, time.Since(lost))
			}
		}}
		w.Inject(etcdfake.Rule{Method: "LeaseGrant", Times: 5, Lose: true, Err: status.Error(codes.InvalidArgument, "no")})
		require.NoError(t, elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if len(waits) == 20 {
				return nil
			}
			w.Delete(tm.Key())
			<-ctx.Done()
			return nil
		}))
		for _, wait := range waits {
			assert.GreaterOrEqual(t, wait, 500*time.Millisecond)
			assert.LessOrEqual(t, wait, time.Second)
		}
		assert.Greater(t, slices.Max(waits)-slices.Min(waits), 100*time.Millisecond, "%v", waits)
	})
}

func TestRunReturnsWhatCannotGetBetter(t *testing.T) {
	never := func(context.Context, *elect.Term) error { return errors.New("never led") }
	t.Run("token floor", func(t *testing.T) {
		inBubble(t, func(w *fixture) {
			err := elect.Run(w.ctx, w.clientWith(pawl.Config{TokenFloor: 1 << 40}), "e", quick(nil), never)
			assert.ErrorIs(t, err, pawl.ErrTokenFloor)
			time.Sleep(time.Second)
			assert.Empty(t, w.Keys(""))
		})
	})
	for name, want := range map[string]error{"closed": lease.ErrClosed, "changed": pawl.ErrClusterChanged} {
		for _, when := range []string{"before", "leading", "waiting", "not eligible"} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					c := w.client()
					spoil := func() {
						if want == lease.ErrClosed {
							_ = c.Close()
							return
						}
						for _, m := range w.Members() {
							m.SetClusterID(42)
							m.Reset()
						}
					}
					o := quick(nil)
					switch when {
					case "before":
						spoil()
					case "waiting":
						w.Put("e/other", "", 0)
						time.AfterFunc(time.Second, spoil)
					case "not eligible":
						o.Eligible = func(context.Context) bool { return false }
						time.AfterFunc(time.Second, func() { spoil(); _, _ = elect.LeaderOf(w.ctx, c, "e", elect.Options{}) })
					}
					err := elect.Run(w.ctx, c, "e", o, func(ctx context.Context, tm *elect.Term) error {
						if when == "leading" {
							go spoil() // ends with the client's close
						}
						<-ctx.Done()
						return errors.New("dropped")
					})
					assert.ErrorIs(t, err, want)
					synctest.Wait()
				})
			})
		}
	}
}

// Hazards E10, E16: even if every request is lost twice, lead is called once for each term that was
// won, and never twice at a time.
func TestRunSurvivesLosingEachRequestTwice(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"not applied": {Lose: true, Err: unavailable, Times: 2},
		"answer lost": {Err: unavailable, Times: 2},
	} {
		for _, method := range []string{"LeaseGrant", "Txn", "LeaseRevoke", "LeaseKeepAlive", "Watch"} {
			for skip := range 6 {
				t.Run(fmt.Sprintf("%s %s after %d", method, name, skip), func(t *testing.T) {
					inBubble(t, func(w *fixture) {
						rule.Method, rule.Skip = method, skip
						c := w.client()
						w.Inject(rule)
						var log []elect.Event
						runs, under := 0, 0
						err := elect.Run(w.ctx, c, "e", quick(&log), func(ctx context.Context, tm *elect.Term) error {
							under++
							defer func() { under-- }()
							assert.Equal(t, 1, under)
							runs++
							time.Sleep(20 * time.Second)
							if runs == 1 && tm.Err() == nil {
								w.Delete(tm.Key())
								<-ctx.Done()
								return nil
							}
							return tm.Proclaim(ctx, []byte("v"))
						})
						require.NoError(t, err)
						elected := 0
						for _, ev := range log {
							if ev.Kind == elect.Elected {
								elected++
							}
						}
						assert.Equal(t, runs, elected)
						time.Sleep(30 * time.Second)
						assert.Empty(t, w.Keys(""))
						assert.Empty(t, w.Leases())
					})
				})
			}
		}
	}
}

// Hazard E12: nothing of Run is left after it has returned.
func TestRunLeavesNoGoroutine(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		lead := func(context.Context, *elect.Term) error { return nil }
		require.NoError(t, elect.Run(w.ctx, c, "e", quick(nil), lead))
		time.Sleep(time.Minute)
		before := runtime.NumGoroutine()
		for range 20 {
			require.NoError(t, elect.Run(w.ctx, c, "e", quick(nil), lead))
		}
		time.Sleep(time.Minute)
		assert.Less(t, runtime.NumGoroutine(), before+20, "one for each Run")
	})
}

func TestManyRunsTakeTurns(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		leading, terms := 0, 0
		for range 5 {
			c := w.client()
			wg.Go(func() {
				for range 10 {
					assert.NoError(t, elect.Run(w.ctx, c, "e", quick(nil), func(ctx context.Context, tm *elect.Term) error {
						mu.Lock()
						leading++
						terms++
						assert.Equal(t, 1, leading)
						mu.Unlock()
						time.Sleep(time.Second)
						mu.Lock()
						leading--
						mu.Unlock()
						return nil
					}))
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 50, terms)
	})
}

func TestKindsHaveNames(t *testing.T) {
	assert.Equal(t, "elected lost resigned retrying kind 0",
		fmt.Sprint(elect.Elected, " ", elect.Lost, " ", elect.Resigned, " ", elect.Retrying, " ", elect.Kind(0)))
}
