package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lock"
)

// about matches the requests to etcd about a name.
func about(name string) func(etcdfake.Request) bool {
	return func(r etcdfake.Request) bool { return strings.Contains(fmt.Sprint(r.Message), name+"/") }
}

// left is what pawld leaves to its successor.
func (d *daemon) left() (saved Saved) {
	d.w.Helper()
	require.NoError(d.w, d.Detach(func(s Saved) error { saved = s; return nil }))
	require.NoError(d.w, d.client.Close())
	return saved
}

// A pawld that was killed and is back, or a client whose first call was refused: what comes first is a
// Release, which has no TTL.
func TestAClientWhoseReleaseComesFirstHasItsOwnTTL(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		for _, session := range []string{"a", "b"} {
			assert.ErrorIs(w, d.release(session, "before").Why, registry.ErrNotHeld)
		}
		held := func(d *daemon, session, id string) {
			a, err := d.Acquire(w.Context(), d.request(session, time.Second), id, 3*time.Second, exclusive(id), 5000)
			require.NoError(w, err)
			assert.Equal(w, registry.Held, a.State)
			assert.Equal(w, 2500*time.Millisecond, a.Valid)
		}
		held(d, "a", "1")
		d.release("a", "unknown")
		time.Sleep(time.Second)
		held(d, "a", "2")
		saved := d.left()
		next := w.daemon()
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		held(next, "a", "3")
		held(next, "b", "4")
		_, err = next.Acquire(w.Context(), next.request("b", 0), "before", 3*time.Second, exclusive("x"), 5000)
		assert.ErrorContains(w, err, "was released")
	})
}

// V6: a client that settles what it released may use its request again. What the first acquisition
// wins or loses after that is not the second one's.
func TestARequestThatIsUsedAgainIsAnotherAcquisition(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		d.keep("a")
		d.acquire("b", "1", 0, exclusive("name"))
		ref := registry.Ref{Session: "b", Request: "1"}
		d.mu.Lock()
		earlier := d.parts[ref]
		d.mu.Unlock()
		d.release("b", "1")
		_, err := d.Renew(w.Context(), d.request("b", 0), []string{"1"})
		require.NoError(w, err)
		require.Equal(w, registry.Waiting, d.acquire("b", "1", 0, exclusive("name")).State)

		h, err := exclusive("late").acquire(w.Context(), d.Service)
		require.NoError(w, err)
		assert.False(w, d.won(ref, earlier, h))
		assert.True(w, d.failed(ref, earlier, fmt.Errorf("an earlier acquisition's")))
		assert.Equal(w, registry.Waiting, d.acquire("b", "1", 0, exclusive("name")).State)
		d.release("a", "1")
		a := d.acquire("b", "1", time.Second, exclusive("name"))
		assert.Equal(w, registry.Held, a.State)
		assert.NotZero(w, a.Token)
		assert.True(w, d.release("b", "1").Released)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("late/"), "what nobody wants is given back")

		d.hold("c", "1", "other")
		hung := w.f.Inject(etcdfake.Rule{Method: "Txn", HoldAnswer: 2 * time.Second, Times: 1})
		confirmed := make(chan Lock, 1)
		go func() {
			l, err := d.Confirm(w.Context(), d.request("c", 0), "1")
			assert.NoError(w, err)
			confirmed <- l
		}()
		time.Sleep(time.Second)
		hung.Lift()
		assert.True(w, d.release("c", "1").Released)
		_, err = d.Renew(w.Context(), d.request("c", 0), []string{"1"})
		require.NoError(w, err)
		d.hold("c", "1", "other")
		assert.Equal(w, registry.Lost, (<-confirmed).State)
		assert.Equal(w, registry.Held, d.one("c").State, "what a Confirm of the earlier one finds is not the later one's")
	})
}

// V7: the connection of each call breaks, and its client calls again on another.
// rule: V7
func TestABrokenConnectionMeansNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		d.acquire("b", "1", 0, exclusive("name"))
		keys := w.f.Keys("name/")
		require.Len(w, keys, 2)
		broken := func(call func(ctx context.Context)) {
			ctx, cancel := context.WithCancel(w.Context())
			time.AfterFunc(time.Second, cancel)
			call(ctx)
		}
		for range 5 { // for longer than the TTL, because what was received counts
			broken(func(ctx context.Context) { _, _ = d.Renew(ctx, d.request("a", time.Minute), nil) })
			broken(func(ctx context.Context) {
				_, _ = d.Acquire(ctx, d.request("b", time.Minute), "1", 0, exclusive("name"), 10)
			})
			time.Sleep(time.Second)
		}
		assert.Equal(w, keys, w.f.Keys("name/"))
		again := d.one("a")
		assert.Equal(w, registry.Held, again.State)
		assert.Equal(w, l.Token, again.Token)

		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("name"), Hang: true})
		broken(func(ctx context.Context) { _, _ = d.Release(ctx, d.request("a", 0), []string{"1"}) })
		lost.Lift()
		time.Sleep(time.Second)
		assert.True(w, d.release("a", "1").Released, "it was carried out, and a repeat finds how it ended")
		b := d.acquire("b", "1", time.Second, exclusive("name"))
		assert.Equal(w, registry.Held, b.State)
		assert.Contains(w, keys, b.Keys[0], "its position was kept")
	})
}

func TestNothingIsKeptForASessionWithoutAParkedRequest(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		for i := range 20 {
			session := fmt.Sprint(i)
			d.hold(session, "1", "name")
			d.renew(session, time.Second)
			d.release(session, "1")
			d.renew(session, time.Second)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		assert.Empty(w, d.news)
	})
}

// A release that etcd does not decide is not listed any more, so that its client settles it. That
// must not keep another lock of the session from being renewed.
func TestAReleaseThatIsNotDecidedKeepsNoOtherLockFromBeingRenewed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "slow")
		d.hold("a", "2", "other")
		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("slow"), Lose: true})
		go func() { _, _ = d.Release(w.Context(), d.request("a", 0), []string{"1"}) }()
		synctest.Wait()
		all, err := d.Renew(w.Context(), d.request("a", 0), []string{"1"})
		require.NoError(w, err)
		require.Len(w, all, 1)
		assert.Equal(w, "2", all[0].Ref.Request)
		assert.Equal(w, registry.Held, all[0].State)
		lost.Lift()
		for begin := time.Now(); ; {
			results, err := d.Release(w.Context(), d.request("a", 0), []string{"1"})
			if err == nil {
				assert.True(w, results[0].Released)
				return
			}
			require.Less(w, time.Since(begin), 30*time.Second)
		}
	})
}

func TestARefusedReleaseIsNotAskedForWithoutAPause(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "refused")
		refused := w.f.Inject(etcdfake.Rule{
			Method: "Txn", Match: about("refused"), Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied"),
		})
		go func() { _, _ = d.Release(w.Context(), d.request("a", 0), []string{"1"}) }()
		time.Sleep(time.Second)
		assert.Less(w, refused.Hits(), 60)
		refused.Lift()
		time.Sleep(2 * time.Second)
		assert.True(w, d.release("a", "1").Released)
	})
}

// V4: the session that is taken over ends before a lock on it is. What the predecessor promised
// keeps the lease.
func TestASessionThatEndsDuringATakeoverKeepsItsLeaseForThePredecessorsPromises(t *testing.T) {
	inBubble(t, func(w *fixture) {
		defer clock.SetWallJump(0)
		d := w.daemon()
		l := d.hold("a", "1", "taken")
		begin := time.Now()
		validity := d.one("a").Valid
		saved := d.left()
		next := w.daemon()
		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("taken"), Lose: true})
		go func() {
			time.Sleep(time.Second)
			clock.SetWallJump(time.Hour)
		}()
		taken, err := next.Resume(w.Context(), saved)
		clock.SetWallJump(0)
		lost.Lift()
		require.NoError(w, err)
		assert.Zero(w, taken)
		require.Less(w, time.Since(begin), validity)
		time.Sleep(validity - 1 - time.Since(begin))
		synctest.Wait()
		assert.NotNil(w, w.f.Get(l.Keys[0]), "its client believes until now")
		time.Sleep(30 * time.Second)
		assert.Nil(w, w.f.Get(l.Keys[0]))
	})
}

// V8: what pawld took from a client, and had not removed yet, is no release after a restart either.
// rule: V8
func TestAForfeitThatARestartFindsPendingIsNoRelease(t *testing.T) {
	const delay = 7 * time.Second
	inBubble(t, func(w *fixture) {
		d := w.daemonWith(delay)
		key := d.hold("a", "1", "name").Keys[0]
		won := make(chan time.Time, 1)
		other := w.daemon().client
		go func() {
			h, err := lock.New(other, "name", lock.Options{}).Acquire(w.Context())
			assert.NoError(w, err)
			won <- time.Now()
			_ = h.Release(w.Context())
		}()
		time.Sleep(h + time.Second)
		require.Equal(w, 1, d.Counts().Expired)
		saved := d.left()
		require.NotNil(w, w.f.Get(key))
		begin := time.Now()
		next := w.daemon() // without a lock-delay
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, Why("EXPIRED"), WhyOf(next.one("a").Why))
		at := <-won
		assert.GreaterOrEqual(w, at.Sub(begin), delay)
		assert.Less(w, at.Sub(begin), delay+3*time.Second)
	})
}

// A key that somebody wrote to while no pawld ran is lost, whether it is still on pawld's lease
// or not. It stays while its client may believe, and no longer.
func TestAKeyThatWasOverwrittenDuringARestartIsLostAndItsNameIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		want  Want
		lease bool
	}{
		"on its lease":           {exclusive("name"), true},
		"off its lease":          {exclusive("name"), false},
		"a reader's":             {Want{Names: []string{"name"}, Modes: []Mode{Shared}}, true},
		"the first of a set's":   {Want{Names: []string{"name", "other"}, Modes: []Mode{Exclusive, Exclusive}}, true},
		"a set's, off the lease": {Want{Names: []string{"name", "other"}, Modes: []Mode{Exclusive, Exclusive}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				l := d.acquire("a", "1", time.Second, c.want).Lock
				require.Equal(w, registry.Held, l.State)
				begin := time.Now()
				validity := d.one("a").Valid
				lease := int64(0)
				if c.lease {
					lease = d.session.ID()
				}
				saved := d.left()
				w.f.Put(l.Keys[0], "x", lease)
				next := w.daemon()
				taken, err := next.Resume(w.Context(), saved)
				require.NoError(w, err)
				assert.Zero(w, taken)
				lost := next.one("a")
				assert.Equal(w, registry.Lost, lost.State)
				assert.Equal(w, Why("KEY_OVERWRITTEN"), WhyOf(lost.Why))
				time.Sleep(validity - 1 - time.Since(begin))
				synctest.Wait()
				for _, key := range l.Keys {
					assert.NotNil(w, w.f.Get(key), "its client believes until now")
				}
				next.keep("b")
				for _, name := range c.want.Names {
					for next.acquire("b", name, 4*time.Second, exclusive(name)).State != registry.Held {
						require.Less(w, time.Since(begin), 35*time.Second, "what is left of a set stays for a TTL of pawld's own")
					}
				}
			})
		})
	}
}

// A state file of another version spells what was requested in another way.
func TestARequestIsTheSameAfterARestartWhoeverSavedIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		saved := d.left()
		text := &saved.Sessions[0].Rows[0].Params.Text
		*text = strings.Replace(*text, "{", `{"Unknown":0,"Limit":0,`, 1)
		next := w.daemon()
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, registry.Held, next.acquire("a", "1", 0, exclusive("name")).State)
		_, err = next.Acquire(w.Context(), next.request("a", 0), "1", 0, exclusive("other"), 10)
		assert.ErrorContains(w, err, "with other parameters")
	})
}

// V4: the predecessor's --max-ttl was greater.
func TestALongerTTLOfThePredecessorsIsPromised(t *testing.T) {
	inBubble(t, func(w *fixture) {
		defer clock.SetWallJump(0)
		d := w.daemon()
		a, err := d.Acquire(w.Context(), d.request("a", time.Second), "1", 15*time.Second, exclusive("name"), 10)
		require.NoError(w, err)
		require.Equal(w, registry.Held, a.State)
		begin := time.Now()
		validity := d.one("a").Valid
		saved := d.left()
		next := w.daemon()
		next.cfg.Registry.MaxTTL = 3 * time.Second
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, 1, taken)
		clock.SetWallJump(time.Hour)
		assert.Equal(w, registry.Lost, next.one("a").State)
		clock.SetWallJump(0)
		time.Sleep(validity - 1 - time.Since(begin))
		synctest.Wait()
		assert.NotNil(w, w.f.Get(a.Keys[0]))
	})
}

// What can be had is a lock, and not only a session: without space etcd takes no write. What is held
// is kept meanwhile.
func TestPawldIsReadyOnlyWhileEtcdTakesWrites(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		ready := func() error {
			time.Sleep(probeKept)
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
			defer cancel()
			return d.Ready(ctx)
		}
		require.NoError(w, ready())
		d.hold("a", "1", "name")
		w.f.SetNoSpace(true)
		assert.ErrorContains(w, ready(), "NOSPACE")
		for range 10 {
			time.Sleep(5 * time.Second)
			assert.Equal(w, registry.Held, d.one("a").State)
			assert.ErrorContains(w, ready(), "NOSPACE")
		}
		w.f.SetNoSpace(false)
		require.NoError(w, ready())

		w.f.Inject(etcdfake.Rule{Lose: true})
		require.Equal(w, registry.Held, d.one("a").State, "D has not passed")
		assert.ErrorContains(w, ready(), "does not answer")
		w.f.LiftAll()
		require.NoError(w, ready())
		d.Drain()
		assert.ErrorIs(w, ready(), ErrStopping)
	})
}

// The caller of Ready may use no name: however often it calls, and goes away, etcd has little
// to write.
func TestEtcdIsProbedOnceASecondWhetherPawldIsReady(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		require.NoError(w, d.Ready(w.Context()))
		var probed atomic.Int32
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(r etcdfake.Request) bool {
			if c := r.Message.(*pb.TxnRequest).Compare; len(c) == 1 && c[0].GetCreateRevision() == -1 {
				probed.Add(1)
			}
			return false
		}})
		time.Sleep(probeKept)
		for range 300 {
			require.NoError(w, d.Ready(w.Context()))
			time.Sleep(probeKept / 100)
		}
		assert.InDelta(w, 3, probed.Load(), 1)

		time.Sleep(probeKept)
		lost := w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true})
		begin := time.Now()
		gone, cancel := context.WithCancel(w.Context())
		defer cancel()
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{gone, w.Context(), w.Context()} {
			wg.Go(func() { assert.ErrorContains(w, d.Ready(ctx), "does not answer") })
			synctest.Wait()
			cancel()
		}
		wg.Wait()
		assert.Equal(w, probeWait, time.Since(begin), "of one probe")
		lost.Lift()
		require.ErrorContains(w, d.Ready(w.Context()), "does not answer", "a moment ago")
		time.Sleep(probeKept)
		require.NoError(w, d.Ready(w.Context()))
	})
}

// A release is not decided when pawld hands over, and its client sends it again.
func TestAReleaseThatIsUndecidedWhenPawldHandsOverIsCompletedByTheSuccessor(t *testing.T) {
	lost := etcdfake.Rule{Method: "Txn", Match: about("name"), Lose: true}
	unanswered := etcdfake.Rule{Method: "Txn", Match: about("name"), Hang: true}
	for kind, want := range map[string]Want{
		"lock":   exclusive("name"),
		"set":    setOf(nil, "name", "name2"),
		"permit": {Names: []string{"name"}, Modes: []Mode{Semaphore}, Limit: 1},
		"term":   {Names: []string{"name"}, Modes: []Mode{Election}},
	} {
		for name, c := range map[string]struct {
			rule etcdfake.Rule
			then func(w *fixture, keys []string)
			why  Why // "" if it was held until its release
		}{
			"it is lost":            {lost, func(*fixture, []string) {}, ""},
			"its answer is lost":    {unanswered, func(*fixture, []string) {}, ""},
			"a key was overwritten": {lost, func(w *fixture, keys []string) { w.f.Put(keys[0], "x", 0) }, "KEY_OVERWRITTEN"},
		} {
			t.Run(kind+": "+name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					d := w.daemon()
					a := d.acquire("a", "1", time.Second, want)
					require.Equal(w, registry.Held, a.State)
					fault := w.f.Inject(c.rule)
					answered := make(chan error, 1)
					go func() {
						_, err := d.Release(w.Context(), d.request("a", 0), []string{"1"})
						answered <- err
					}()
					synctest.Wait()
					saved := d.left()
					require.Error(w, <-answered)
					c.then(w, a.Keys)
					fault.Lift()
					next := w.daemon()
					_, err := next.Resume(w.Context(), saved)
					require.NoError(w, err)
					for _, l := range next.renew("a", 0) {
						assert.NotEqual(w, registry.Held, l.State, "nothing is promised")
					}
					got := next.release("a", "1")
					assert.Equal(w, c.why == "", got.Released)
					assert.Equal(w, c.why, WhyOf(got.Why))
					time.Sleep(time.Minute) // a set's other names are kept for a while if one is lost
					for _, key := range a.Keys {
						assert.Nil(w, w.f.Get(key))
					}
				})
			})
		}
	}
}

// The predecessor's deletion is applied after the successor has taken the key over.
func TestAReleaseOfThePredecessorsMayBeAppliedLate(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		key := d.hold("a", "1", "name").Keys[0]
		fault := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("name"), Lose: true})
		go func() { _, _ = d.Release(w.Context(), d.request("a", 0), []string{"1"}) }()
		synctest.Wait()
		saved := d.left()
		fault.Lift()
		next := w.daemon()
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(r etcdfake.Request) bool { return about("name")(r) && etcdfake.Writes(r) }, Delay: time.Second})
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		require.NotNil(w, w.f.Get(key))
		w.f.Delete(key)
		assert.Equal(w, Result{Request: "1", Released: true}, next.release("a", "1"))
	})
}

// blind makes all watches miss the deletion of session keys.
func (w *fixture) blind() {
	for _, m := range w.f.Members() {
		m.EditWatches(etcdfake.SwallowDeletes("//pawl/"))
	}
}

// The release that a predecessor began is none if the key went with its lease, which the session
// key alone shows: a watch shows the deletion while another lock is still being taken over.
func TestAReleaseOfThePredecessorsIsNoneIfTheLeaseWentToo(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		key := d.hold("a", "1", "name").Keys[0]
		d.hold("b", "1", "other")
		fault := w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("name"), Lose: true})
		go func() { _, _ = d.Release(w.Context(), d.request("a", 0), []string{"1"}) }()
		synctest.Wait()
		saved := d.left()
		fault.Lift()
		w.blind()
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about("other"), HoldAnswer: 2 * time.Second})
		time.AfterFunc(time.Second, func() {
			w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true}) // no renewal shows it
			w.f.Revoke(w.f.Get(key).Lease)
		})
		next := w.daemon()
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.False(w, next.release("a", "1").Released)
	})
}

// A waiter whose key was deleted has lost its position only if its session is shown alive:
// otherwise the key may have gone with the lease, and it is enqueued again.
// rule: H1
func TestAWaiterWhoseKeyWentWithItsLeaseIsEnqueuedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		strike func(w *fixture, key string)
		lost   bool
	}{
		"alone":          {func(w *fixture, key string) { w.f.Delete(key) }, true},
		"with its lease": {func(w *fixture, key string) { w.f.Revoke(w.f.Get(key).Lease) }, false},
		"alone, which nobody says": {func(w *fixture, key string) {
			silent := w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied"), Match: func(r etcdfake.Request) bool {
				t, _ := r.Message.(*pb.TxnRequest)
				return len(t.Success) == 1 && strings.HasPrefix(string(t.Success[0].GetRequestRange().GetKey()), "//pawl/")
			}})
			time.AfterFunc(time.Second, silent.Lift)
			w.f.Delete(key)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				first, d := w.daemon(), w.daemon()
				first.hold("x", "1", "name")
				first.keep("x")
				require.Equal(w, registry.Waiting, d.acquire("a", "1", 0, exclusive("name")).State)
				d.keep("a")
				time.Sleep(2 * time.Second)
				own := w.f.Keys("name/")
				require.Len(w, own, 2)
				w.blind()
				c.strike(w, own[slices.IndexFunc(own, func(key string) bool { return w.f.Get(key).CreateRevision == w.f.Revision() })])
				time.Sleep(2 * time.Second)
				if c.lost {
					assert.Equal(w, Why("KEY_DELETED"), WhyOf(d.one("a").Why))
					return
				}
				require.Equal(w, registry.Waiting, d.acquire("a", "1", 0, exclusive("name")).State)
				first.release("x", "1")
				assert.Equal(w, registry.Held, d.acquire("a", "1", time.Second, exclusive("name")).State)
			})
		})
	}
}
