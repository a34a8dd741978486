package service

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// fixture is an etcd in memory, in a bubble, and pawlds on it.
type fixture struct {
	*inmemory.Fixture
	f *etcdfake.Cluster
}

func inBubble(t *testing.T, f func(w *fixture)) {
	t.Helper()
	inmemory.InBubble(t, etcdfake.Options{Members: 3}, func(kit *inmemory.Fixture) {
		kit.Cleanup(func() { time.Sleep(16 * time.Second) }) // for what a takeover keeps that long
		f(&fixture{kit, kit.Cluster})
	})
}

// daemon is one pawld.
type daemon struct {
	*Service
	w      *fixture
	client *pawl.Client
}

func (w *fixture) daemon() *daemon { w.Helper(); return w.daemonWith(0) }

// daemonWith is a pawld with a lock-delay.
func (w *fixture) daemonWith(lockDelay time.Duration) *daemon {
	w.Helper()
	d := &daemon{w: w}
	d.client = w.Dial(pawl.Config{Lazy: true, Observer: observe.Func(func(ctx context.Context, ev observe.Event) { d.Observe(ctx, ev) })})
	d.Service = New(d.client, Config{
		Owner: "pawld", Logger: slog.New(slog.DiscardHandler), LockDelay: lockDelay,
		Registry: registry.Config{DefaultTTL: h, MinTTL: 3 * time.Second, MaxTTL: 15 * time.Second, Sessions: 2000, Locks: 5000, Keep: time.Minute},
	})
	w.Cleanup(func() { d.Drain(); d.stop() })
	return d
}

const h = 10 * time.Second

func (d *daemon) request(session string, wait time.Duration) Request {
	return Request{Session: session, Identity: "uid:1", Arrival: clock.Now(), Wait: wait}
}

func exclusive(name string) Want {
	return Want{Names: []string{name}, Modes: []Mode{Exclusive}, Owner: `uid:1 "me"`}
}

// anyName is the policy.
func anyName(string) error { return nil }

func (d *daemon) acquire(session, id string, wait time.Duration, w Want) Answer {
	d.w.Helper()
	a, err := d.Acquire(d.w.Context(), d.request(session, wait), id, 0, w, 5000)
	require.NoError(d.w, err)
	return a
}

func (d *daemon) hold(session, id, name string) Lock {
	d.w.Helper()
	a := d.acquire(session, id, time.Second, exclusive(name))
	require.Equal(d.w, registry.Held, a.State)
	return a.Lock
}

func (d *daemon) renew(session string, wait time.Duration) []Lock {
	d.w.Helper()
	all, err := d.Renew(d.w.Context(), d.request(session, wait), nil)
	require.NoError(d.w, err)
	return all
}

func (d *daemon) one(session string) Lock {
	d.w.Helper()
	all := d.renew(session, 0)
	require.Len(d.w, all, 1)
	return all[0]
}

func (d *daemon) release(session, id string) Result {
	d.w.Helper()
	results, err := d.Release(d.w.Context(), d.request(session, 0), []string{id})
	require.NoError(d.w, err)
	require.Len(d.w, results, 1)
	return results[0]
}

// keep renews a session in the background until the test ends, or stop is called.
func (d *daemon) keep(session string) (stop func()) {
	ctx, cancel := context.WithCancel(d.w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = d.Renew(ctx, d.request(session, time.Second), nil)
			time.Sleep(time.Second)
		}
	}()
	stop = func() { cancel(); <-done }
	d.w.Cleanup(stop)
	return stop
}

func TestALockIsHeldInTheFirstAnswerAndPassedOn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		a := d.hold("a", "1", "name")
		assert.Equal(w, 8333*time.Millisecond, a.Valid)
		key := w.f.Get(a.Keys[0])
		require.NotNil(w, key)
		assert.Equal(w, key.CreateRevision, a.Token)
		assert.Equal(w, `uid:1 "me"`, keys.ParseIdentity(key.Value).Owner)

		b := d.acquire("b", "1", time.Second, exclusive("name"))
		assert.Equal(w, registry.Waiting, b.State)
		assert.Equal(w, 1, b.Position)
		assert.True(w, d.acquire("c", "1", time.Second, Want{Names: []string{"name"}, Modes: []Mode{Exclusive}, Try: true}).Busy)
		assert.Empty(w, d.renew("c", 0), "nothing is left of a try")

		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			assert.True(w, d.release("a", "1").Released)
		}()
		b = d.acquire("b", "1", 4*time.Second, exclusive("name"))
		assert.Equal(w, registry.Held, b.State)
		assert.Less(w, time.Since(begin), 1100*time.Millisecond, "the parked answer comes at once")
		assert.Greater(w, b.Token, a.Token)
		assert.True(w, d.release("a", "1").Released, "a repeat says the same")
		assert.ErrorIs(w, d.release("a", "2").Why, registry.ErrNotHeld)
		assert.True(w, d.release("b", "1").Released)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("name/"))
	})
}

// A client is killed or stopped: the next one has the lock h after its last request, and no
// sooner.
func TestASilentClientIsFollowedAfterItsTTL(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		time.Sleep(2 * time.Second)
		last := time.Now()
		d.renew("a", 0)
		d.keep("b")
		for {
			b := d.acquire("b", "1", 4*time.Second, exclusive("name"))
			if b.State == registry.Held {
				break
			}
			require.Less(w, time.Since(last), h+time.Second)
		}
		assert.GreaterOrEqual(w, time.Since(last), h)
		assert.Less(w, time.Since(last), h+100*time.Millisecond)
		l := d.one("a")
		assert.Equal(w, registry.Lost, l.State)
		assert.Equal(w, Why("EXPIRED"), WhyOf(l.Why))
		assert.Equal(w, []string{"name"}, l.Names)
		assert.Equal(w, 1, d.Counts().Expired)
	})
}

// A client that asks hears, at once and then again, that somebody waits; one that does not ask
// costs etcd nothing.
func TestARenewSaysOfALockThatItIsWanted(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		renew := func(ask bool, wait time.Duration) (all []Lock, took time.Duration) {
			began := time.Now()
			r := d.request("a", wait)
			r.Wanted = ask
			all, err := d.Renew(w.Context(), r, nil)
			require.NoError(w, err)
			return all, time.Since(began)
		}
		d.hold("a", "1", "name")
		d.hold("a", "2", "other")
		time.Sleep(time.Second)
		_, _ = renew(true, 0)
		go func() {
			time.Sleep(500 * time.Millisecond)
			d.acquire("b", "3", time.Millisecond, exclusive("name"))
		}()
		all, took := renew(true, 2*time.Second)
		assert.Less(w, took, 700*time.Millisecond, "it is parked until then")
		require.Len(w, all, 2)
		assert.Equal(w, []bool{true, false}, []bool{all[0].Wanted, all[1].Wanted})
		all, took = renew(true, time.Second)
		assert.GreaterOrEqual(w, took, time.Second, "the client knows that")
		assert.True(w, all[0].Wanted)

		d.acquire("b", "4", time.Millisecond, exclusive("other")) // while none is parked
		time.Sleep(100 * time.Millisecond)
		all, took = renew(true, time.Second)
		assert.Less(w, took, 50*time.Millisecond)
		assert.True(w, all[1].Wanted)
	})
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		d.acquire("b", "2", time.Millisecond, exclusive("name"))
		time.Sleep(time.Second)
		assert.False(w, d.one("a").Wanted, "nobody asked")
	})
}

// V5: a key deleted or overwritten.
// rule: V5
func TestAParkedRenewAnswersAtOnceWhenALockIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		why Why
		do  func(w *fixture, key string)
	}{
		"deleted":     {"KEY_DELETED", func(w *fixture, key string) { w.f.Delete(key) }},
		"overwritten": {"KEY_OVERWRITTEN", func(w *fixture, key string) { w.f.Put(key, "x", 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				l := d.hold("a", "1", "name")
				time.Sleep(time.Second) // its watch is armed
				begin := time.Now()
				go func() {
					time.Sleep(500 * time.Millisecond)
					c.do(w, l.Keys[0])
				}()
				all := d.renew("a", 4*time.Second)
				assert.Less(w, time.Since(begin), 700*time.Millisecond)
				require.Len(w, all, 1)
				assert.Equal(w, registry.Lost, all[0].State)
				assert.Equal(w, c.why, WhyOf(all[0].Why))
				assert.Equal(w, c.why, WhyOf(d.release("a", "1").Why))
				assert.Len(w, d.renew("a", 0), 1)
				_, err := d.Renew(w.Context(), d.request("a", 0), []string{"1"})
				require.NoError(w, err)
				assert.Empty(w, d.renew("a", 0), "settled")
			})
		})
	}
}

func TestRenewIsParkedForHalfOfTheShortestValidity(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		begin := time.Now()
		l := d.renew("a", time.Minute)[0]
		assert.Equal(w, 8333*time.Millisecond/2, time.Since(begin))
		assert.Equal(w, 8333*time.Millisecond, l.Valid, "from its arrival")
		begin = time.Now()
		d.renew("none", time.Minute)
		assert.Zero(w, time.Since(begin))
		begin = time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := d.Renew(ctx, d.request("a", time.Minute), nil)
		require.NoError(w, err, "it answers before the caller's own timeout")
		assert.Equal(w, 900*time.Millisecond, time.Since(begin))
	})
}

// pawld's wall clock is stepped: it loses its session, and keeps the lease for as long as
// a client may believe (V4).
// rule: V4
func TestAWallClockThatStepsTakesNoKeyBeforeItsPromise(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		begin := time.Now()
		d.renew("a", 0)
		clock.SetWallJump(time.Hour)
		assert.Equal(w, registry.Lost, d.one("a").State)
		clock.SetWallJump(0)
		time.Sleep(h - 1 - time.Since(begin))
		synctest.Wait()
		assert.NotNil(w, w.f.Get(l.Keys[0]))
		next := d.acquire("b", "1", time.Second, exclusive("name"))
		assert.Equal(w, registry.Held, next.State, "on pawld's next session")
		assert.Nil(w, w.f.Get(l.Keys[0]))
		assert.Equal(w, 1, d.Counts().Lost)
	})
}

// etcd is silent: D passes, all is lost, and no answer promised more than D.
func TestASilentEtcdEndsEveryValidityBeforeTheLease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		begin := time.Now()
		w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
		var validity time.Time
		for {
			sent := time.Now()
			l := d.one("a")
			if l.State == registry.Lost {
				assert.Equal(w, Why("EXPIRED"), WhyOf(l.Why))
				break
			}
			validity = sent.Add(l.Valid)
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(w, validity.Sub(begin), 25*time.Second)
		assert.Less(w, time.Since(begin), 26*time.Second)
		assert.NotZero(w, d.Counts().Cut)
	})
}

// Metrics are there while etcd is not.
func TestCountsDoNotWaitForEtcd(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		w.f.Inject(etcdfake.Rule{Hang: true})
		go func() { _, _ = d.Acquire(w.Context(), d.request("a", 0), "1", 0, exclusive("name"), 10) }()
		time.Sleep(time.Second)
		begin := time.Now()
		assert.Equal(w, 1, d.Counts().Waiting)
		assert.Zero(w, time.Since(begin))
	})
}

// V9: a lock is won in the instant in which its client gave up.
func TestALockThatNoAnswerListedIsGivenBack(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		d.acquire("b", "1", 0, exclusive("name"))
		time.Sleep(time.Second)
		d.renew("b", 0) // its session lives, and it polls no more
		d.release("a", "1")
		synctest.Wait()
		assert.Equal(w, 1, d.Counts().Held)
		begin := time.Now()
		for time.Since(begin) < h+time.Second {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Empty(w, w.f.Keys("name/"))
		assert.Equal(w, 1, d.Counts().Orphans)
	})
}

func TestMaxHoldEndsWhatItsClientKeepsAlive(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		want := exclusive("name")
		want.MaxHold = 5 * time.Second
		begin := time.Now()
		a := d.acquire("a", "1", 0, want)
		require.Equal(w, registry.Held, a.State)
		for {
			all := d.renew("a", time.Second)
			if all[0].State == registry.Lost {
				assert.Equal(w, Why("MAX_HOLD"), WhyOf(all[0].Why))
				break
			}
		}
		assert.Equal(w, 5*time.Second, time.Since(begin))
		assert.Equal(w, 1, d.Counts().Overheld)
		d.hold("b", "1", "name")
	})
}

// A client that learns of a lock when its validity in it has expired gives it back itself, and does not
// learn what ends it.
func TestNoRenewIsAnsweredWithAValidityThatHasExpired(t *testing.T) {
	const hold = 5 * time.Second
	for left := 2 * time.Millisecond; left < 400*time.Millisecond; left += 7 * time.Millisecond {
		inBubble(t, func(w *fixture) {
			d := w.daemon()
			want := exclusive("name")
			want.MaxHold = hold
			require.Equal(w, registry.Held, d.acquire("a", "1", 0, want).State)
			for end := time.Now().Add(hold - left); time.Now().Before(end); {
				d.renew("a", min(time.Until(end), time.Second))
			}
			for {
				sent := time.Now()
				l := d.renew("a", time.Second)[0]
				if l.State == registry.Lost {
					assert.Equal(w, Why("MAX_HOLD"), WhyOf(l.Why))
					return
				}
				require.Greater(w, l.Valid-time.Since(sent), 20*time.Millisecond, "%v before its end", left)
			}
		})
	}
}

// A lock that is won while its Acquire is parked is answered with a validity that lasts twice as long as
// that was parked, unless max hold is a few milliseconds; then it lasts, still.
func TestNoAcquireIsAnsweredWithAValidityThatIsOver(t *testing.T) {
	const ttl = 15 * time.Second
	for _, hold := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 1500 * time.Millisecond, 3 * time.Second, 20 * time.Second, 0} {
		for _, after := range []time.Duration{70 * time.Millisecond, 700 * time.Millisecond, 6200 * time.Millisecond, 7400 * time.Millisecond} {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				d.hold("a", "1", "name")
				d.keep("a")
				want := exclusive("name")
				want.MaxHold = hold
				released := make(chan struct{})
				time.AfterFunc(after, func() { d.release("a", "1"); close(released) })
				for {
					sent := time.Now()
					b, err := d.Acquire(w.Context(), d.request("b", ttl/2), "1", ttl, want, 5000)
					require.NoError(w, err)
					parked := time.Since(sent)
					if b.State == registry.Waiting {
						require.NotZero(w, parked)
						continue
					}
					require.Equal(w, registry.Held, b.State)
					assert.Greater(w, b.Valid, parked, "max hold %v, released after %v", hold, after)
					if hold == 0 || hold >= 100*time.Millisecond {
						assert.LessOrEqual(w, 2*parked, b.Valid+2*time.Millisecond, "max hold %v, released after %v", hold, after)
					}
					<-released
					return
				}
			})
		}
	}
}

// A max hold that is shorter than a round trip to etcd parks no Acquire for longer, and such an answer does
// not say that etcd is silent.
func TestAShortMaxHoldOnASlowEtcdIsWonNevertheless(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "elsewhere")
		w.f.Inject(etcdfake.Rule{Method: "Txn", HoldAnswer: 45 * time.Millisecond})
		want := exclusive("name")
		want.MaxHold = 50 * time.Millisecond
		for range 5 {
			b, err := d.Acquire(w.Context(), d.request("b", time.Second), "1", 0, want, 5000)
			require.NoError(w, err)
			if b.State != registry.Waiting {
				assert.Equal(w, registry.Held, b.State)
				return
			}
		}
		assert.Fail(w, "never held")
	})
}

// V8: a lock that is taken from a silent client stays taken for the lock-delay; one that is
// released does not.
// rule: V8
func TestAnExpiredLockIsNoReleasedOne(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemonWith(7 * time.Second)
		d.hold("a", "1", "name")
		d.hold("a", "2", "other")
		begin := time.Now()
		_, err := d.Release(w.Context(), d.request("a", 0), []string{"2"})
		require.NoError(w, err)
		d.keep("b")
		require.Equal(w, registry.Held, d.acquire("b", "2", time.Second, exclusive("other")).State)
		for d.acquire("b", "1", 4*time.Second, exclusive("name")).State != registry.Held {
			require.Less(w, time.Since(begin), h+9*time.Second)
		}
		assert.GreaterOrEqual(w, time.Since(begin), h+7*time.Second)
	})
}

func TestAnUnreachableEtcdIsSaidAndThePlaceIsKept(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("x", "1", "other")
		d.keep("x")
		w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Times: 4})
		begin := time.Now()
		refused := 0
		for {
			a, err := d.Acquire(w.Context(), d.request("a", time.Second), "1", 0, exclusive("name"), 10)
			if err == nil && a.State == registry.Held {
				break
			}
			require.ErrorIs(w, err, ErrUnavailable)
			refused++
			require.Less(w, time.Since(begin), 30*time.Second)
		}
		assert.NotZero(w, refused)
		assert.Len(w, w.f.Keys("name/"), 1)
	})
}

func TestEndingASessionGivesAllOfItBack(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		for i := range 5 {
			d.hold("a", fmt.Sprint(i), fmt.Sprint("name", i))
		}
		d.hold("b", "1", "name")
		d.acquire("a", "waits", 0, exclusive("name"))
		results, err := d.Release(w.Context(), d.request("a", 0), nil)
		require.NoError(w, err)
		assert.Len(w, results, 6)
		synctest.Wait()
		assert.Equal(w, 1, d.Counts().Held)
		assert.Zero(w, d.Counts().Waiting)
		_, err = d.Acquire(w.Context(), d.request("a", 0), "late", 0, exclusive("name"), 10)
		assert.ErrorContains(w, err, "session has ended")
		results, err = d.Release(w.Context(), d.request("a", 0), nil)
		assert.NoError(w, err, "a repeat is no error")
		assert.Empty(w, results)
	})
}

func TestConfirmAndProclaimAskEtcd(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		got, err := d.Confirm(w.Context(), d.request("a", 0), "1")
		require.NoError(w, err)
		assert.Equal(w, registry.Held, got.State)
		_, err = d.Proclaim(w.Context(), d.request("a", 0), "1", []byte("v"), anyName)
		assert.ErrorIs(w, err, ErrNoTerm)
		w.f.Delete(l.Keys[0])
		got, err = d.Confirm(w.Context(), d.request("a", 0), "1")
		require.NoError(w, err)
		assert.Equal(w, registry.Lost, got.State)
		for _, ref := range []string{"2", "1"} {
			got, err = d.Confirm(w.Context(), d.request("other", 0), ref)
			require.NoError(w, err)
			assert.Equal(w, Why("NOT_HELD"), WhyOf(got.Why))
		}
		a := d.acquire("a", "e", 0, Want{Names: []string{"e"}, Modes: []Mode{Election}, Value: []byte("v1")})
		require.Equal(w, registry.Held, a.State)
		_, err = d.Proclaim(w.Context(), d.request("a", 0), "e", []byte("v2"), anyName)
		require.NoError(w, err)
		assert.Equal(w, "v2", string(w.f.Get(a.Keys[0]).Value))
	})
}

// No lock is lost, the token stays, and what was waiting polls again.
func TestARestartLosesNoLock(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		var before []Lock
		for i := range 40 {
			before = append(before, d.hold(fmt.Sprint("s", i%5), fmt.Sprint(i), fmt.Sprint("name", i)))
		}
		gone := d.hold("s0", "gone", "gone")
		d.release("s1", "released")
		d.acquire("w", "1", 0, exclusive("name0"))
		parked := make(chan error, 1)
		go func() {
			_, err := d.Renew(w.Context(), d.request("s0", time.Minute), nil)
			parked <- err
		}()
		synctest.Wait()
		var saved Saved
		d.Drain()
		require.ErrorIs(w, <-parked, ErrStopping)
		writes := 0
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; writes++; return nil }))
		assert.Equal(w, 2, writes, "the rows, and then the Handle")
		_, err := d.Acquire(w.Context(), d.request("s0", 0), "x", 0, exclusive("x"), 10)
		assert.ErrorIs(w, err, ErrStopping)
		require.NoError(w, d.client.Close())
		w.f.Delete(gone.Keys[0])
		time.Sleep(5 * time.Second)

		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, 40, taken)
		assert.Len(w, w.f.Keys("name0/"), 1, "positions were given up")
		after := map[string]Lock{}
		for i := range 5 {
			for _, l := range next.renew(fmt.Sprint("s", i), 0) {
				after[l.Ref.Request] = l
			}
		}
		for i, b := range before {
			a := after[fmt.Sprint(i)]
			assert.Equal(w, registry.Held, a.State)
			assert.Equal(w, b.Token, a.Token)
			assert.Equal(w, b.Keys, a.Keys)
		}
		assert.Equal(w, Why("KEY_DELETED"), WhyOf(after["gone"].Why))
		_, err = next.Acquire(w.Context(), next.request("s1", 0), "released", 0, exclusive("x"), 10)
		assert.ErrorContains(w, err, "was released")
		for i := range 5 {
			next.keep(fmt.Sprint("s", i))
		}
		assert.Equal(w, registry.Waiting, next.acquire("w", "1", time.Second, exclusive("name0")).State)
		assert.True(w, next.release("s0", "0").Released)
		assert.Equal(w, registry.Held, next.acquire("w", "1", time.Second, exclusive("name0")).State)
		time.Sleep(time.Minute)
		assert.Equal(w, 40-1, next.Counts().Held)
	})
}

// A position that wins while pawld stops is nobody's: its key must not stay with the lease.
func TestAPlaceThatWinsWhilePawldStopsLeavesNoKey(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for i := range 20 {
			d := w.daemon()
			d.hold("a", "1", "name")
			d.acquire("b", "1", 0, exclusive("name"))
			go func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				_, _ = d.Release(w.Context(), d.request("a", 0), []string{"1"})
			}()
			time.Sleep(time.Millisecond)
			var saved Saved
			require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
			_ = d.client.Close()
			next := w.daemon()
			taken, err := next.Resume(w.Context(), saved)
			require.NoError(w, err)
			time.Sleep(5 * time.Second) // what was unsettled is removed
			assert.Len(w, w.f.Keys("name/"), taken)
			next.Drain()
			require.NoError(w, next.Close(w.Context()))
			_ = next.client.Close()
			assert.Empty(w, w.f.Keys("name/"))
		}
	})
}

// V4: without a successor pawld makes no further promise, and releases when the last promise
// has passed.
func TestClosingRevokesWhenTheLastPromiseHasPassed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		begin := time.Now()
		d.renew("a", 0)
		done := make(chan error)
		go func() { done <- d.Close(w.Context()) }()
		time.Sleep(h - 1)
		synctest.Wait()
		assert.NotNil(w, w.f.Get(l.Keys[0]))
		require.NoError(w, <-done)
		assert.Less(w, time.Since(begin), h+100*time.Millisecond)
		assert.Nil(w, w.f.Get(l.Keys[0]))
	})
}

// After a kill a new pawld lists nothing as held, and the keys stay until the lease ends.
func TestAPawldWithoutAHandleHoldsNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		next := w.daemon()
		taken, err := next.Resume(w.Context(), Saved{Sessions: []SavedSession{{ID: "a", Identity: "uid:1", TTL: h, Rows: []SavedRow{{
			Request: "1", Params: exclusive("name").params(), State: registry.Held, Keys: []string{"name/1-1"}, Token: 5,
		}}}}})
		assert.ErrorContains(w, err, "left no session")
		assert.Zero(w, taken)
		l := next.one("a")
		assert.Equal(w, registry.Lost, l.State)
		assert.Equal(w, Why("EXPIRED"), WhyOf(l.Why))
		next.hold("a", "2", "name")
	})
}

// The daemon's locks and those of Go programs exclude each other, because they are the same.
func TestTheLibraryAndTheDaemonExcludeEachOther(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		d.keep("a")
		other := w.daemon().client
		_, err := lock.New(other, "name", lock.Options{}).TryAcquire(w.Context())
		assert.ErrorIs(w, err, lock.ErrBusy)
	})
}
