//lint:file-ignore SA1012 that nil contexts are refused is tested

package elect_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

var unavailable = status.Error(codes.Unavailable, "connection lost")

func TestATermIsWhatItsKeyInEtcdSays(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		tm := w.campaign(s, "team/a", "me")
		at := w.Get(tm.Key())
		require.NotNil(t, at)
		assert.Equal(t, "me", string(at.Value))
		assert.EqualValues(t, at.CreateRevision, tm.Token())
		assert.Equal(t, s.ID(), at.Lease)
		assert.Equal(t, "team/a", tm.Name())
		assert.Equal(t, fmt.Sprintf("/team%%2Fa/%x-1", s.ID()), tm.Key())
		require.NoError(t, tm.Err())
		require.NoError(t, tm.Confirm(w.ctx))
		assert.Equal(t, s.Deadline(), tm.Deadline())
		resource, token, ok := fencing.FromContext(tm.Context())
		assert.True(t, ok)
		assert.Equal(t, "team/a", resource)
		assert.Equal(t, tm.Token(), token)
		_, err := w.client().KV().Txn(w.ctx, kv.Txn{Guards: []kv.Guard{tm.Guard()}, Then: []kv.Op{kv.Put("x", nil)}})
		require.NoError(t, err)

		require.NoError(t, tm.Resign(w.ctx))
		require.NoError(t, tm.Resign(w.ctx), "again, the same answer")
		assert.ErrorIs(t, tm.Err(), elect.ErrResigned)
		assert.NotErrorIs(t, tm.Err(), elect.ErrLost)
		assert.NoError(t, tm.Context().Err(), "not cancelled by Resign")
		assert.True(t, isClosed(tm.Done()))
		assert.Zero(t, tm.Deadline())
		assert.Nil(t, w.Get(tm.Key()))
		assert.EqualValues(t, at.CreateRevision, tm.Token(), "stays")
		_, err = w.client().KV().Txn(w.ctx, kv.Txn{Guards: []kv.Guard{tm.Guard()}, Then: []kv.Op{kv.Put("x", nil)}})
		assert.ErrorIs(t, err, kv.ErrFenced)
	})
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestCandidatesLeadInOrderWithRisingTokens(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		var wg sync.WaitGroup
		var order []int
		var last fencing.Token
		first := w.campaign(w.sessionOn(c), "e", "0")
		for i := range 10 {
			e := elect.New(w.sessionOn(c), "e", elect.Options{})
			wg.Go(func() {
				tm, err := e.Campaign(w.ctx, fmt.Append(nil, i))
				if !assert.NoError(t, err) {
					return
				}
				order = append(order, i)
				assert.Greater(t, tm.Token(), last)
				last = tm.Token()
				assert.NoError(t, tm.Resign(w.ctx))
			})
			synctest.Wait()
		}
		require.NoError(t, first.Resign(w.ctx))
		wg.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

// Hazard E1: a campaign whose key is gone never wins, wherever that happens.
func TestCampaignNeverWinsWithoutItsKey(t *testing.T) {
	for _, how := range []string{"revoked", "deleted", "overwritten"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				leader := w.campaign(w.session(), "e", "leader")
				s := w.session()
				won := make(chan error, 1)
				go func() {
					_, err := elect.New(s, "e", elect.Options{}).Campaign(w.ctx, []byte("second"))
					won <- err
				}()
				synctest.Wait()
				key := fmt.Sprintf("e/%x-1", s.ID())
				require.NotNil(t, w.Get(key))
				want := elect.ErrKeyDeleted
				switch how {
				case "revoked":
					w.Revoke(s.ID())
					want = lease.ErrRevoked
				case "deleted":
					w.Delete(key)
				case "overwritten":
					w.Put(key, "foreign", 0)
					want = elect.ErrKeyOverwritten
				}
				err := <-won
				require.ErrorIs(t, err, want)
				require.NotErrorIs(t, err, elect.ErrLost, "it never won")
				require.NoError(t, leader.Err(), "the leader is not concerned")
				time.Sleep(time.Second)
				assert.Len(t, w.Keys("e/"), 1)
			})
		})
	}
}

// Hazard E1: nor does it win at the moment at which it would be next, when no watch has delivered
// anything yet.
func TestCampaignWhoseKeyGoesWithTheLeadersDoesNotWin(t *testing.T) {
	for _, how := range []string{"revoked", "deleted"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				leader := w.campaign(w.session(), "e", "leader")
				s := w.session()
				key := fmt.Sprintf("e/%x-1", s.ID())
				for _, m := range w.Members() {
					m.EditWatches(etcdfake.SwallowDeletes(key))
				}
				won := make(chan error, 1)
				go func() { // ends with its turn
					tm, err := elect.New(s, "e", elect.Options{}).Campaign(w.ctx, []byte("second"))
					assert.Nil(t, tm)
					won <- err
				}()
				synctest.Wait()
				want := elect.ErrKeyDeleted
				if how == "revoked" {
					want = lease.ErrRevoked
					w.Revoke(s.ID())
				} else {
					w.Delete(key)
				}
				require.NoError(t, leader.Resign(w.ctx))
				require.ErrorIs(t, <-won, want)
				assert.Empty(t, w.Keys("e/"))
			})
		})
	}
}

// Hazard E2: whatever error Campaign returns, its key leaves the queue.
func TestACampaignThatFailsLeavesNoCandidate(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"applied, answer lost":       {Method: "Txn", Err: unavailable},
		"not applied":                {Method: "Txn", Lose: true, Err: unavailable},
		"applied, no word":           {Method: "Txn", Hang: true},
		"applied after the campaign": {Method: "Txn", Late: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				f := w.Inject(rule)
				ctx, cancel := context.WithTimeout(w.ctx, 500*time.Millisecond)
				defer cancel()
				begin := time.Now()
				tm, err := elect.New(s, "e", elect.Options{}).Campaign(ctx, nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Nil(t, tm)
				assert.LessOrEqual(t, time.Since(begin), 600*time.Millisecond)
				f.Lift()
				time.Sleep(4 * time.Second)
				assert.Empty(t, w.Keys("e/"))
				assert.NoError(t, s.Err())
				w.campaign(w.session(), "e", "another")
			})
		})
	}
}

// Hazard E3: compaction is no error to a waiting candidate, and it keeps its position.
func TestCompactionWhileWaitingKeepsThePosition(t *testing.T) {
	inBubble(t, func(w *fixture) {
		leader := w.campaign(w.session(), "e", "leader")
		var won []string
		var wg sync.WaitGroup // a resignation that the test's end overtakes reports that its client is closed
		for _, v := range []string{"second", "third"} {
			s := w.session()
			wg.Go(func() {
				tm, err := elect.New(s, "e", elect.Options{}).Campaign(w.ctx, []byte(v))
				if assert.NoError(t, err) {
					won = append(won, v)
					assert.NoError(t, tm.Resign(w.ctx))
				}
			})
			synctest.Wait()
		}
		for range 100 {
			w.Compact(w.Put("noise", "", 0))
			for _, m := range w.Members() {
				m.Reset()
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, leader.Resign(w.ctx))
		wg.Wait()
		assert.Equal(t, []string{"second", "third"}, won)
	})
}

// Hazard E4: a resignation that failed can be repeated, and a Proclaim that failed forgets nothing.
func TestResignCanBeRepeatedUntilItIsConfirmed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tm := w.campaign(w.session(), "e", "me")
		w.BlackHole()
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		require.Error(t, tm.Proclaim(ctx, []byte("other")))
		begin := time.Now()
		require.ErrorIs(t, tm.Resign(ctx), kv.ErrUnknown)
		assert.LessOrEqual(t, time.Since(begin), 100*time.Millisecond, "ctx is done")
		assert.ErrorIs(t, tm.Err(), elect.ErrResigned)
		w.Heal()
		require.NoError(t, tm.Resign(w.ctx))
		assert.Nil(t, w.Get(tm.Key()))
	})
}

// Hazard E5: every call survives two failures of its request, both if it is not applied and if it
// is applied and the answer is lost.
func TestEveryCallSurvivesLosingItsRequestTwice(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"not applied": {Lose: true, Err: unavailable},
		"answer lost": {Err: unavailable},
	} {
		for skip := range 8 {
			t.Run(fmt.Sprintf("%s after %d", name, skip), func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					s := w.session()
					rule.Method, rule.Skip, rule.Times = "Txn", skip, 2
					w.Inject(rule)
					tm, err := elect.New(s, "e", elect.Options{}).Campaign(w.ctx, []byte("0"))
					require.NoError(t, err)
					require.NoError(t, tm.Proclaim(w.ctx, []byte("1")))
					require.NoError(t, tm.Proclaim(w.ctx, []byte("2")))
					require.NoError(t, tm.Confirm(w.ctx))
					assert.Equal(t, "2", string(w.Get(tm.Key()).Value))
					assert.Equal(t, s.ID(), w.Get(tm.Key()).Lease, "a value is put on the lease")
					require.NoError(t, tm.Resign(w.ctx))
					time.Sleep(5 * time.Second)
					assert.Empty(t, w.Keys("e/"))
					assert.Equal(t, []string{"0", "1", "2"}, w.values("e/"))
				})
			})
		}
	}
}

// values are the values that keys under prefix were given, in order.
func (w *fixture) values(prefix string) (all []string) {
	for _, c := range w.History() {
		if len(c.Key) > len(prefix) && c.Key[:len(prefix)] == prefix && !c.Deleted {
			all = append(all, string(c.Value))
		}
	}
	return all
}

func TestProclaimAfterALossSaysSoAndWritesNothing(t *testing.T) {
	for how, lose := range map[string]func(w *fixture, s *pawl.Session, tm *elect.Term) error{
		"deleted": func(w *fixture, _ *pawl.Session, tm *elect.Term) error {
			w.Delete(tm.Key())
			return elect.ErrKeyDeleted
		},
		"overwritten": func(w *fixture, _ *pawl.Session, tm *elect.Term) error {
			w.Put(tm.Key(), "x", 0)
			return elect.ErrKeyOverwritten
		},
		"revoked": func(w *fixture, s *pawl.Session, _ *elect.Term) error { w.Revoke(s.ID()); return lease.ErrRevoked },
		"closed":  func(w *fixture, s *pawl.Session, _ *elect.Term) error { _ = s.Close(w.ctx); return lease.ErrClosed },
		"expired": func(w *fixture, s *pawl.Session, _ *elect.Term) error {
			w.BlackHole()
			time.Sleep(s.TTL())
			w.Heal()
			return lease.ErrExpired
		},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				tm := w.campaign(s, "e", "0")
				done := tm.Done()
				want := lose(w, s, tm)
				for call, err := range map[string]error{
					"proclaim": tm.Proclaim(w.ctx, []byte("late")), "confirm": tm.Confirm(w.ctx),
					"resign": tm.Resign(w.ctx), "err": tm.Err(),
				} {
					assert.ErrorIs(t, err, elect.ErrLost, call)
					assert.ErrorIs(t, err, want, call)
					assert.Equal(t, 1, causes(err), "%s: %v", call, err)
				}
				<-done
				assert.ErrorIs(t, context.Cause(tm.Context()), want)
				assert.NotContains(t, w.values("e/"), "late")
			})
		})
	}
}

// causes returns how many of the causes of a loss err matches.
func causes(err error) (n int) {
	for _, c := range []error{lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, elect.ErrKeyDeleted, elect.ErrKeyOverwritten, elect.ErrOverrun, elect.ErrStalled, pawl.ErrClusterChanged} {
		if errors.Is(err, c) {
			n++
		}
	}
	return n
}

func TestProclaimsAreMadeOneAtATime(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tm := w.campaign(w.session(), "e", "0")
		var mu sync.Mutex
		under, most := 0, 0
		w.Inject(etcdfake.Rule{Op: "write value", HoldAnswer: 10 * time.Millisecond, Match: func(etcdfake.Request) bool {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.AfterFunc(9*time.Millisecond, func() { mu.Lock(); under--; mu.Unlock() }) // before its answer
			return true
		}})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { assert.NoError(t, tm.Proclaim(w.ctx, fmt.Append(nil, i))) })
		}
		wg.Go(func() { // one that does not wait for its turn
			ctx, cancel := context.WithTimeout(w.ctx, time.Millisecond)
			defer cancel()
			time.Sleep(time.Microsecond)
			begin := time.Now()
			assert.ErrorIs(t, tm.Proclaim(ctx, []byte("never")), context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(begin), 2*time.Millisecond)
		})
		wg.Wait()
		assert.Equal(t, 1, most)
		assert.Len(t, w.values("e/"), 21)
		assert.NotContains(t, w.values("e/"), "never")
	})
}

func TestResumedTermKeepsItsTokenAndItsValue(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		tm := w.campaign(s, "e", "me")
		require.NoError(t, tm.Proclaim(w.ctx, []byte("still me")))
		handle := s.Detach()
		assert.ErrorIs(t, tm.Err(), lease.ErrClosed)

		next := w.client()
		s2, err := next.NewSession(w.ctx, lease.Options{Resume: handle})
		require.NoError(t, err)
		e := elect.New(s2, "e", elect.Options{})
		again, err := e.Resume(w.ctx, tm.Key(), tm.Token())
		require.NoError(t, err)
		assert.Equal(t, tm.Token(), again.Token())
		require.NoError(t, again.Proclaim(w.ctx, []byte("restarted")))
		l, err := elect.LeaderOf(w.ctx, next, "e", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, "restarted", string(l.Value))
		assert.Equal(t, tm.Token(), l.Token)
		require.NoError(t, again.Resign(w.ctx))
		_, err = e.Resume(w.ctx, tm.Key(), tm.Token())
		assert.ErrorIs(t, err, elect.ErrLost)
	})
}

// Hazard E15: each campaign has a different key, even successive campaigns of one session.
func TestEachCampaignHasAKeyOfItsOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := elect.New(w.session(), "e", elect.Options{})
		keys := map[string]bool{}
		for range 5 {
			tm, err := e.Campaign(w.ctx, nil)
			require.NoError(t, err)
			assert.False(t, keys[tm.Key()])
			keys[tm.Key()] = true
			require.NoError(t, tm.Resign(w.ctx))
		}
	})
}

func TestTwoCandidatesOfOneElectionExcludeEachOther(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := elect.New(w.session(), "e", elect.Options{})
		a, err := e.Campaign(w.ctx, []byte("a"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = e.Campaign(ctx, []byte("b"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, a.Err())
	})
}

func TestErrorsAreThoseOfPackageLock(t *testing.T) {
	assert.Same(t, lock.ErrLost, elect.ErrLost)
	assert.Same(t, lock.ErrKeyDeleted, elect.ErrKeyDeleted)
	assert.Same(t, lock.ErrKeyOverwritten, elect.ErrKeyOverwritten)
}

// Each call of a nil or zero Term is refused, and none panics.
func TestNilAndZeroHandlesAreRefused(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for _, tm := range []*elect.Term{nil, {}} {
			assert.Error(t, tm.Err())
			assert.Error(t, tm.Proclaim(w.ctx, nil))
			assert.Error(t, tm.Resign(w.ctx))
			assert.Error(t, tm.Confirm(w.ctx))
			assert.Zero(t, tm.Token())
			assert.Nil(t, tm.Session())
			assert.Zero(t, tm.Deadline())
			assert.Empty(t, tm.Key())
			assert.Empty(t, tm.Name())
			assert.True(t, isClosed(tm.Done()))
			assert.Error(t, tm.Context().Err())
			_, err := w.client().KV().Txn(w.ctx, kv.Txn{Guards: []kv.Guard{tm.Guard()}, Then: []kv.Op{kv.Put("x", nil)}})
			assert.Error(t, err)
		}
		tm := w.campaign(w.session(), "e", "")
		assert.ErrorContains(t, tm.Proclaim(nil, nil), "nil context") //nolint:staticcheck // on purpose
		assert.ErrorContains(t, tm.Resign(nil), "nil context")        //nolint:staticcheck // on purpose
	})
}

func TestBadArgumentsAreNamed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		long := string(make([]byte, 1025))
		before := w.Revision()
		for _, e := range []*elect.Election{
			nil, elect.New(nil, "e", elect.Options{}), elect.New(s, "", elect.Options{}), elect.New(s, long, elect.Options{}),
			elect.New(s, "/", elect.Options{EtcdLayout: true}), elect.New(s, "//pawl", elect.Options{EtcdLayout: true}),
		} {
			tm, err := e.Campaign(w.ctx, nil)
			assert.Error(t, err)
			assert.Nil(t, tm)
			tm, err = e.Resume(w.ctx, "e/1-1", 1)
			assert.Error(t, err)
			assert.Nil(t, tm)
		}
		c := w.client()
		for name, e := range map[string]error{"empty": second(elect.LeaderOf(w.ctx, c, "", elect.Options{})), "nil client": second(elect.LeaderOf(w.ctx, nil, "e", elect.Options{}))} {
			assert.Error(t, e, name)
		}
		for _, o := range []elect.RunOptions{
			{MinBackoff: -1}, {MaxBackoff: -1}, {MinBackoff: 2, MaxBackoff: 1}, {Overrun: -1}, {Session: lease.Options{TTL: 1}},
		} {
			assert.Error(t, elect.Run(w.ctx, c, "e", o, func(context.Context, *elect.Term) error { return nil }))
		}
		assert.Error(t, elect.Run(w.ctx, c, "e", elect.RunOptions{}, nil))
		assert.Error(t, elect.Run(w.ctx, nil, "e", elect.RunOptions{}, func(context.Context, *elect.Term) error { return nil }))
		assert.Error(t, elect.Run(w.ctx, c, "", elect.RunOptions{}, func(context.Context, *elect.Term) error { return nil }))
		for _, e := range observed(w.ctx, c, "") {
			assert.Error(t, e)
		}
		assert.Equal(t, before, w.Revision(), "nothing is written")
	})
}

func second[T any](_ T, err error) error { return err }

// observed returns every error of observing name.
func observed(ctx context.Context, c *pawl.Client, name string) (errs []error) {
	for _, err := range elect.Observe(ctx, c, name, elect.Options{}) {
		errs = append(errs, err)
	}
	return errs
}
