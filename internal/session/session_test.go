package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// silence loses every later renewal.
func (r *rig) silence() *etcdfake.Fault {
	return r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
}

// Rules T3, T4, hazard S2: the first deadline is the grant's. One nanosecond before it the session is
// valid. At the deadline it has ended, according to everything that reports it.
// rule: T3
func TestSessionIsValidANanosecondBeforeItsDeadlineAndExpiredAtIt(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, s *Session, valid bool){
		"Err": func(t *testing.T, s *Session, valid bool) { assert.Equal(t, valid, s.Err() == nil) },
		"Deadline": func(t *testing.T, s *Session, valid bool) {
			assert.Equal(t, valid, !s.Deadline().IsZero())
		},
		"Context": func(t *testing.T, s *Session, valid bool) { assert.Equal(t, valid, s.Context().Err() == nil) },
		"Done": func(t *testing.T, s *Session, valid bool) {
			synctest.Wait()
			assert.Equal(t, valid, !isClosed(s.Done()))
		},
		"Wait": func(t *testing.T, s *Session, valid bool) {
			d := &dependent{}
			assert.Equal(t, valid, d.waits(s) == nil)
		},
		"extend": func(t *testing.T, s *Session, valid bool) {
			if !valid { // T4: a renewal that was sent in time and comes late
				assert.Error(t, s.extend(clock.Now().Add(-time.Second), 3*time.Second))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				sent := time.Now()
				s := r.session(lease.Options{TTL: 3 * time.Second})
				assert.Equal(t, sent.Add(2500*time.Millisecond), s.Deadline())
				r.BlackHole()
				time.Sleep(2500*time.Millisecond - 1)
				look(t, s, true)
				time.Sleep(time.Nanosecond)
				look(t, s, false)
				requireEnded(t, s, lease.ErrExpired)
			})
		})
	}
}

// Rule T2, hazard S1: however late answers come, the session's deadline is never
// after the server's expiry.
// rule: T2
func TestDeadlineIsNeverAfterTheServersExpiryHoweverLateAnswersCome(t *testing.T) {
	for late := time.Duration(0); late < 3*time.Second; late += 97 * time.Millisecond {
		inBubble(t, etcdfake.Options{ExpiryTick: -1}, func(t *testing.T, r *rig) {
			r.Inject(etcdfake.Rule{Method: "LeaseGrant", HoldAnswer: late / 3})
			s := r.session(lease.Options{TTL: 3 * time.Second})
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: late})
			for range 600 {
				time.Sleep(10 * time.Millisecond)
				d := s.Deadline()
				if d.IsZero() {
					break
				}
				require.False(t, d.Add(500*time.Millisecond).After(r.expiry(s)), "answers %v late", late)
			}
			if late <= 900*time.Millisecond {
				require.NoError(t, s.Err(), "answers %v late are in time", late)
			}
			if late >= 2*time.Second {
				oneCause(t, s.Err(), lease.ErrExpired)
			}
		})
	}
}

// Rule T4: an answer that comes at or after the deadline never makes the session valid again, even if
// its handler is the first goroutine to see that the deadline has passed.
// rule: T4
func TestALateAnswerNeverResurrects(t *testing.T) {
	for name, first := range map[string]func(s *Session){
		"Err":    func(s *Session) { _ = s.Err() },
		"loop":   func(s *Session) { synctest.Wait() },
		"extend": func(s *Session) { _ = s.extend(clock.Now().Add(-time.Millisecond), 3*time.Second) },
	} {
		for _, at := range []time.Duration{0, 1, time.Millisecond, time.Second} {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 3 * time.Second})
				r.BlackHole()
				time.Sleep(2500*time.Millisecond + at)
				first(s)
				require.Error(t, s.extend(clock.Now(), 3*time.Second), "%s, %v", name, at)
				r.Heal()
				sleep(10 * time.Second)
				requireEnded(t, s, lease.ErrExpired)
			})
		}
	}
}

// Rule T4 under concurrency: once any goroutine has seen an error, none sees nil.
// rule: T4
func TestOnceSomebodySawItEndedNobodySeesItValid(t *testing.T) {
	first := testscale.Seed(t)
	for seed := first; seed != first+20; seed++ {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 3 * time.Second})
			var wg sync.WaitGroup
			var mu sync.Mutex
			var ended bool
			for i := range 8 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					for range 400 {
						time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Millisecond))))
						mu.Lock()
						was := ended
						mu.Unlock()
						err := s.Err()
						if was {
							assert.Error(t, err)
						}
						if err != nil {
							mu.Lock()
							ended = true
							mu.Unlock()
						}
					}
				})
			}
			time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 8)).Int64N(int64(time.Second))))
			r.BlackHole()
			wg.Wait()
			requireEnded(t, s, lease.ErrExpired)
		})
	}
}

// Rule T2: a renewal whose answer shows a shorter TTL than before takes the
// deadline back, because the server counts again from it.
func TestAShorterTTLTakesTheDeadlineBack(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		require.NoError(t, s.extend(clock.Now(), 6*time.Second))
		assert.Equal(t, 6*time.Second, s.TTL())
		assert.Equal(t, 5*time.Second, time.Until(s.Deadline()))
		require.NoError(t, s.extend(clock.Now().Add(-time.Second), 6*time.Second))
		assert.Equal(t, 5*time.Second, time.Until(s.Deadline()), "an older renewal moves nothing")
	})
}

// Rule T1, hazard S22: the time that the machine slept counts, and the first check after it reports the
// end, without I/O.
// rule: T3
func TestAfterASuspendLongerThanTheWindowTheFirstErrSaysSo(t *testing.T) {
	for _, slept := range []time.Duration{2500 * time.Millisecond, time.Hour} {
		t.Cleanup(func() { clock.SetSource(nil) })
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			clock.SetSource(func(time.Time) time.Duration { return 0 })
			s := r.session(lease.Options{TTL: 3 * time.Second})
			require.NoError(t, s.Err())
			clock.SetSource(func(time.Time) time.Duration { return slept })
			require.Error(t, s.Err())
			requireEnded(t, s, lease.ErrExpired)
		})
	}
}

func TestASuspendTakesItsTimeOffTheDeadline(t *testing.T) {
	t.Cleanup(func() { clock.SetSource(nil) })
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		clock.SetSource(func(time.Time) time.Duration { return time.Hour })
		s := r.session(lease.Options{TTL: 6 * time.Second})
		before := s.Deadline()
		clock.SetSource(func(time.Time) time.Duration { return time.Hour + 2*time.Second })
		assert.Equal(t, before.Add(-2*time.Second), s.Deadline())
		require.NoError(t, s.Err())
	})
}

// Rule T1: that a machine was frozen together with its clocks shows when the wall clock is corrected.
// rule: T1
func TestAWallClockThatRanAheadByMoreThanTheMarginEndsTheSession(t *testing.T) {
	t.Cleanup(func() { clock.SetWallJump(0) })
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		clock.SetWallJump(0)
		s := r.session(lease.Options{TTL: 6 * time.Second})
		clock.SetWallJump(time.Second)
		require.NoError(t, s.Err(), "just the margin")
		clock.SetWallJump(-time.Hour)
		require.NoError(t, s.Err(), "set back")
		sleep(10 * time.Second) // renewed, so counted from the new c
		clock.SetWallJump(-time.Hour + time.Second + 1)
		require.Error(t, s.Err())
		clock.SetWallJump(-time.Hour)
		requireEnded(t, s, lease.ErrExpired)
	})
}

// Rule N5, H1: each way to end is distinguished, and the first cause is final.
// rule: N5
func TestEachEndHasOneCauseThatStays(t *testing.T) {
	ends := map[string]struct {
		want error
		do   func(t *testing.T, r *rig, s *Session)
	}{
		"closed":    {lease.ErrClosed, func(_ *testing.T, _ *rig, s *Session) { _ = s.Close(context.Background()) }},
		"detached":  {lease.ErrClosed, func(_ *testing.T, _ *rig, s *Session) { s.Detach() }},
		"abandoned": {lease.ErrClosed, func(_ *testing.T, _ *rig, s *Session) { s.Abandon(fmt.Errorf("%w: overrun", lease.ErrClosed)) }},
		"expired":   {lease.ErrExpired, func(_ *testing.T, r *rig, _ *Session) { r.silence(); sleep(3 * time.Second) }},
		"revoked":   {lease.ErrRevoked, func(_ *testing.T, r *rig, s *Session) { r.Revoke(s.ID()) }},
		"TTL 0": {lease.ErrRevoked, func(_ *testing.T, r *rig, _ *Session) {
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
				m.(*pb.LeaseKeepAliveResponse).TTL = 0
			}})
			sleep(2 * time.Second)
		}},
		"session key deleted":   {lease.ErrRevoked, func(_ *testing.T, r *rig, s *Session) { r.Delete(s.own.key) }},
		"session key rewritten": {lease.ErrRevoked, func(_ *testing.T, r *rig, s *Session) { r.Put(s.own.key, "", s.ID()) }},
		"another cluster": {cluster.ErrChanged, func(_ *testing.T, r *rig, _ *Session) {
			for _, m := range r.Members() {
				m.SetClusterID(77)
			}
			sleep(2 * time.Second)
		}},
		"revision back": {cluster.ErrChanged, func(_ *testing.T, r *rig, _ *Session) {
			r.Inject(etcdfake.Rule{Op: "confirm session", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
				m.(*pb.TxnResponse).Header.Revision = 1
			}})
			sleep(2 * time.Second)
		}},
	}
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 3 * time.Second})
				sleep(time.Second)
				e.do(t, r, s)
				synctest.Wait()
				requireEnded(t, s, e.want)
				first := s.Err()
				r.LiftAll()
				_ = s.Close(context.Background())
				r.Revoke(s.ID())
				sleep(time.Minute)
				assert.Equal(t, lease.Handle{}, s.Detach(), "a dead session has nothing to hand over")
				requireEnded(t, s, e.want)
				assert.Equal(t, first, s.Err())
			})
		})
	}
}

// The text of an expiry names the last failure and the endpoint.
func TestExpiryNamesTheLastFailure(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 3 * time.Second})
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Err: rpctypes.ErrGRPCPermissionDenied})
		<-s.Done()
		assert.ErrorContains(t, s.Err(), "permission denied")
		assert.ErrorContains(t, s.Err(), "10.0.0.1:2379")
	})
}

// The context is cancelled, with the cause, for a goroutine that reads it after Err, even
// while the dependents are still being notified.
func TestContextIsCancelledAsSoonAsErrSaysSo(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 3 * time.Second})
		c := &dependent{onEnd: func(cause error) {
			assert.Equal(t, cause, context.Cause(s.Context()))
		}}
		require.NoError(t, c.holds(s, 0, false))
		r.Revoke(s.ID())
		synctest.Wait()
		require.Len(t, c.ends, 1)
	})
}

// Hazard H1: a holder that is cut off sees the end before the key is deleted at the server, whatever
// the latencies and phases. The oracle is the server's time of deletion.
func TestACutOffHolderKnowsBeforeTheServerDeletesItsKey(t *testing.T) {
	const each = 20
	for round := range testscale.Of(9, 50) { // in the proof a thousand tries
		seed := uint64(round)
		inBubble(t, etcdfake.Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, r *rig) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			held := map[string]*Session{}
			deleted := 0
			r.OnChange(func(ch etcdfake.Change) {
				mu.Lock()
				defer mu.Unlock()
				if s := held[ch.Key]; s != nil && ch.Deleted { // by expiry, or by the holder after it knew of its end
					deleted++
					assert.Error(t, s.Err(), "seed %d: valid when its key was deleted", seed)
				}
			})
			var lat sync.Mutex
			delay := func(most time.Duration) func() time.Duration {
				return func() time.Duration {
					lat.Lock()
					defer lat.Unlock()
					return time.Duration(rnd.Int64N(int64(most) + 1))
				}
			}
			for _, m := range r.Members() {
				m.SetDelay(delay(60*time.Millisecond), delay(60*time.Millisecond))
			}
			var all []*Session
			for i := range each {
				ttl := time.Duration(3+i%5) * time.Second
				s := r.session(lease.Options{TTL: ttl})
				mu.Lock()
				held[s.own.key] = s
				mu.Unlock()
				all = append(all, s)
				time.Sleep(delay(300 * time.Millisecond)())
			}
			time.Sleep(delay(8 * time.Second)())
			switch round % 3 {
			case 0:
				r.BlackHole()
			case 1:
				for _, m := range r.Members() {
					m.Mute() // renewals still arrive
				}
			case 2:
				r.Cut()
			}
			sleep(20 * time.Second)
			mu.Lock()
			assert.Equal(t, each, deleted, "seed %d", seed)
			mu.Unlock()
			for _, s := range all {
				oneCause(t, s.Err(), lease.ErrExpired)
			}
		})
	}
}

// Hazard H8: a server's clock that runs 2 % faster is covered by the margin.
func TestAServersClockThatRunsTwoPercentFasterIsCovered(t *testing.T) {
	inBubble(t, etcdfake.Options{ExpiryTick: -1}, func(t *testing.T, r *rig) {
		r.SetClockRate(1.02)
		s := r.session(lease.Options{TTL: 3 * time.Second})
		sleep(10 * time.Minute)
		require.NoError(t, s.Err())
		r.OnChange(func(ch etcdfake.Change) {
			if ch.Deleted && ch.Key == s.own.key {
				assert.Error(t, s.Err())
			}
		})
		r.BlackHole()
		sleep(10 * time.Second)
		oneCause(t, s.Err(), lease.ErrExpired)
	})
}

// Hazard S15: a leader change gives leases more time and takes none.
func TestLeaderChangesAreSurvived(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 3 * time.Second})
		for i := range 30 {
			r.ChangeLeader(i % 3)
			sleep(time.Duration(1+i*113%1700) * time.Millisecond)
			require.NoError(t, s.Err())
		}
	})
}

// Hazard H5: a rolling restart ends no session.
func TestARollingRestartIsSurvived(t *testing.T) {
	for _, ttl := range []time.Duration{5, 10, 15} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: ttl * time.Second})
			for i := range 30 {
				r.Member(i % 3).Stop()
				sleep(time.Duration(500+i*271%3000) * time.Millisecond)
				r.Member(i % 3).Heal()
				sleep(time.Duration(i*53%700) * time.Millisecond)
				require.NoError(t, s.Err(), fmt.Sprint(i))
			}
		})
	}
}

// Hazard S10: the context of the call bounds the call and nothing after it.
func TestTheGrantsContextIsNotTheSessionsLifetime(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := Grant(ctx, r.host, lease.Options{TTL: 3 * time.Second})
		require.NoError(t, err)
		cancel()
		sleep(time.Minute)
		require.NoError(t, s.Err())
		require.NoError(t, s.Close(context.Background()))
		_, there := r.Lease(s.ID())
		assert.False(t, there)
	})
}

// Session.TTL is what the server granted (T5, hazard S3).
// rule: T5
func TestTheTTLThatTheServerRaisedCounts(t *testing.T) {
	inBubble(t, etcdfake.Options{MinTTL: 30}, func(t *testing.T, r *rig) {
		began := time.Now()
		s := r.session(lease.Options{TTL: 3 * time.Second, Margin: time.Second})
		assert.Equal(t, 30*time.Second, s.TTL())
		assert.Equal(t, began.Add(25*time.Second), s.Deadline(), "a sixth of what was granted: the margin asked for is less")
		before := r.renewals()
		sleep(31 * time.Second)
		assert.Equal(t, 4, r.renewals()-before)
	})
}
