package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// leftBy is the content of a Handle, which must not be zero.
func leftBy(h lease.Handle) detached.State {
	s, err := stateOf(h)
	if err != nil {
		panic(err)
	}
	return s
}

// toRemove are the keys of the entries that a Handle leaves to be undone.
func toRemove(h lease.Handle) []string { return leftBy(h).ToRemove }

// inTakeover are the transactions of a takeover, in their order. The last removes what was left open.
// It continues in the background after the takeover.
var inTakeover = []string{"take over session", "confirm session", "leave the queue"}

// successor is a client of another process.
func (r *rig) successor() Host { return newHost(r.t, r.Cluster, "ns") }

// Rule N6: a session that is detached in one process and resumed in another keeps its lease, its TTL
// and its keys.
// rule: N6
func TestADetachedSessionIsResumedByAnotherProcessOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		key := r.Put("held", "", s.ID())
		sleep(20 * time.Second)
		h := s.Detach()
		requireEnded(t, s, lease.ErrClosed)
		assert.Equal(t, lease.Handle{}, s.Detach())

		sleep(2 * time.Second)
		began := time.Now()
		next := sessionOn(t, r.successor(), lease.Options{Resume: h, Owner: "next"})
		assert.Equal(t, s.ID(), next.ID())
		assert.Equal(t, 6*time.Second, next.TTL())
		assert.Equal(t, began.Add(5*time.Second), next.Deadline(), "from a confirmed renewal of its own")
		assert.Contains(t, string(r.Get(next.own.key).Value), `"next"`)
		sleep(time.Minute)
		require.NoError(t, next.Err())
		assert.Equal(t, key, r.Get("held").CreateRevision)

		_, err := Grant(context.Background(), r.host, lease.Options{Resume: h})
		require.ErrorIs(t, err, lease.ErrTakenOver)
		require.NoError(t, next.Err(), "the second takeover harms nobody")
		assert.Len(t, r.Leases(), 1)

		again := sessionOn(t, r.successor(), lease.Options{Resume: next.Detach()})
		sleep(time.Minute)
		require.NoError(t, again.Err())
	})
}

// Hazard S8, rule N6: after Detach has returned the predecessor sends no renewal.
func TestThePredecessorSendsNoRenewalAfterDetach(t *testing.T) {
	for phase := range 40 {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			for _, m := range r.Members() {
				m.SetDelay(etcdfake.Fixed(30*time.Millisecond), etcdfake.Fixed(30*time.Millisecond))
			}
			s := r.session(lease.Options{TTL: 4 * time.Second})
			sleep(950*time.Millisecond + time.Duration(phase)*5*time.Millisecond)
			s.Detach()
			assert.True(t, isClosed(s.Stopped()), "nothing is sent here after Detach has returned")
			sleep(100 * time.Millisecond) // for what was under way
			n := r.renewals()
			sleep(time.Minute)
			assert.Equal(t, n, r.renewals())
		})
	}
}

// Rule N6: a session that was taken over without knowing it is refused at once, by the comparison of
// the session key, and leaves the lease alone.
// rule: N6
func TestAPredecessorThatMissedEverythingIsRefusedAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		h := handleOf(s.state(nil))
		for _, m := range r.Members() {
			muteWatches(m)
		}
		next := sessionOn(t, r.successor(), lease.Options{Resume: h})
		require.NoError(t, s.Err(), "nothing has shown it")
		key, mod := s.Key()
		resp, err := r.host.Cluster.Txn(context.Background(), cluster.Request{Op: "enqueue"}, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.ModIs(key, mod)}, Success: []*pb.RequestOp{txn.Put("q", nil, s.ID())}, Failure: []*pb.RequestOp{txn.Stat(key)},
		})
		require.NoError(t, err)
		require.False(t, resp.Succeeded)
		oneCause(t, s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision), lease.ErrRevoked)
		requireEnded(t, s, lease.ErrRevoked)
		sleep(2 * time.Minute)
		require.NoError(t, next.Err())
		assert.Zero(t, r.Counts().Received["LeaseRevoke"])
	})
}

func TestAPredecessorsNextRenewalFindsTheTakeover(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		for _, m := range r.Members() {
			muteWatches(m)
		}
		h := handleOf(s.state(nil))
		next := sessionOn(t, r.successor(), lease.Options{Resume: h})
		sleep(2100 * time.Millisecond)
		oneCause(t, s.Err(), lease.ErrRevoked)
		sleep(time.Minute)
		require.NoError(t, next.Err())
	})
}

func TestAHandleOfAGoneLeaseIsRefusedAsRevoked(t *testing.T) {
	for name, gone := range map[string]func(r *rig, h lease.Handle){
		"revoked":             func(r *rig, h lease.Handle) { r.Revoke(leftBy(h).Lease) },
		"expired":             func(*rig, lease.Handle) { sleep(10 * time.Second) },
		"session key deleted": func(r *rig, h lease.Handle) { r.Delete(leftBy(h).Key) },
		"lost in between": func(r *rig, h lease.Handle) {
			r.Inject(etcdfake.Rule{Op: "take over session", Lose: true, Err: rpctypes.ErrGRPCLeaseNotFound})
		},
	} {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			h := r.session(lease.Options{TTL: 4 * time.Second}).Detach()
			gone(r, h)
			_, err := Grant(context.Background(), r.host, lease.Options{Resume: h})
			oneCause(t, err, lease.ErrRevoked)
			require.NotErrorIs(t, err, lease.ErrTakenOver, name)
		})
	}
}

func TestAHandleOfAnotherClusterOrNamespaceIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		h := r.session(lease.Options{}).Detach()
		synctest.Wait()
		before := r.Counts()
		left := leftBy(h)
		left.Cluster++
		other := handleOf(left)
		_, err := Grant(context.Background(), r.host, lease.Options{Resume: other})
		assert.ErrorContains(t, err, "cluster")
		elsewhere := r.host
		elsewhere.Namespace = "elsewhere"
		_, err = Grant(context.Background(), elsewhere, lease.Options{Resume: h})
		assert.ErrorContains(t, err, "Namespace")
		assert.Zero(t, r.Counts().Since(before).Received["Txn"])
		require.NoError(t, sessionOn(t, r.host, lease.Options{Resume: h}).Err(), "it is still good")
	})
}

// muteWatches makes the member swallow every event.
func muteWatches(m *etcdfake.Member) {
	m.EditWatches(func(w *pb.WatchResponse) []*pb.WatchResponse {
		if len(w.Events) > 0 {
			return nil
		}
		return []*pb.WatchResponse{w}
	})
}

// Rules N6, A5: what the predecessor left open is removed if it was applied. If it comes later, the
// session key, which the takeover rewrote, refuses it.
func TestOpenEntriesAreUndoneByTheSuccessor(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		n1, applied, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(applied, "", s.ID())
		n2, coming, err := begin(s, "b/c/")
		require.NoError(t, err)
		n3, settled, err := begin(s, "d/")
		require.NoError(t, err)
		r.Put(settled, "", s.ID())
		isAbsent(s, n3)
		n4, held, err := begin(s, "e/")
		require.NoError(t, err)
		r.Put(held, "", s.ID())
		c := &dependent{own: held}
		require.NoError(t, c.holds(s, n4, false))
		h := s.Detach()
		require.Len(t, c.ends, 1)

		next := sessionOn(t, r.successor(), lease.Options{Resume: h})
		assert.Nil(t, r.Get(applied))
		assert.NotNil(t, r.Get(settled))
		assert.NotNil(t, r.Get(held))
		assert.Nil(t, r.Get(string(next.CancelKey(n1))))
		assert.Nil(t, r.Get(string(next.CancelKey(n2))), "the session key refuses late copies")
		assert.Nil(t, r.Get(string(next.CancelKey(n3))))
		assert.Nil(t, r.Get(coming))
		n5, _, err := begin(next, "f/")
		require.NoError(t, err)
		assert.Equal(t, n4+1, n5, "n goes on")
		assert.True(t, adopt(next, n4, held))
		assert.False(t, adopt(next, n4, held), "once")
		assert.False(t, adopt(next, n5, "f/1-1"), "its own")
	})
}

// V8: what a successor cannot resume is removed a lock-delay after it is due, because it was not
// released. It cannot discard keys of two entries, or of a session that it made itself.
// rule: V8
func TestWhatIsDiscardedIsRemovedAtItsTime(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		const delay = 5 * time.Second
		s := r.session(lease.Options{TTL: 60 * time.Second, LockDelay: delay})
		var own []string
		var ns []int64
		for _, prefix := range []string{"a/", "b/"} {
			n, key, err := begin(s, prefix)
			require.NoError(t, err)
			r.Put(key, "", s.ID())
			c := &dependent{own: key}
			require.NoError(t, c.holds(s, n, false))
			own, ns = append(own, key), append(ns, n)
		}
		next := sessionOn(t, r.successor(), lease.Options{Resume: s.Detach()})
		due := time.Now().Add(10 * time.Second)
		assert.False(t, next.Discard(due, own...), "two entries")
		assert.False(t, next.Discard(due, keys.QueueKey{Lease: 1, N: 1}.In("a/")), "another's")
		assert.True(t, next.Discard(due, own[0]))
		assert.False(t, next.Discard(due, own[0]), "once")
		sleep(10*time.Second + delay - 1)
		assert.NotNil(t, r.Get(own[0]))
		sleep(time.Second)
		assert.Nil(t, r.Get(own[0]))
		assert.NotNil(t, r.Get(own[1]))
		assert.True(t, adopt(next, ns[1], own[1]))
	})
}

// undo removes an unwanted entry, as the background does, but sends only one request.
func undo(s *Session, n int64) error {
	isUnwanted(s, n)
	s.mu.Lock()
	e := s.book.entries[n]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	return s.removeEntries(context.Background(), []*Entry{e})
}

// Rule A5: an undo makes an enqueue impossible, can be repeated, and under NOSPACE
// at least deletes.
func TestUndoDeletesUnderNoSpaceAndCancelsLater(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		r.SetNoSpace(true)
		err = undo(s, n)
		assert.True(t, cluster.IsNoSpace(err))
		assert.Nil(t, r.Get(key), "the delete alone works")
		r.SetNoSpace(false)
		for range 2 {
			require.NoError(t, undo(s, n))
			assert.NotNil(t, r.Get(string(s.CancelKey(n))))
		}
	})
}

func TestUndoIsRefusedToWhoWasTakenOver(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		muteWatches(r.Member(0))
		r.Put(key, "", s.ID())
		r.Put(s.own.key, "another's", s.ID())
		oneCause(t, undo(s, n), lease.ErrRevoked)
		assert.NotNil(t, r.Get(key))
		requireEnded(t, s, lease.ErrRevoked)
	})
}

func TestUndoOfAGoneLeaseEndsTheSession(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: rpctypes.ErrGRPCLeaseNotFound})
		n, _, err := begin(s, "a/")
		require.NoError(t, err)
		oneCause(t, undo(s, n), lease.ErrRevoked)
		requireEnded(t, s, lease.ErrRevoked)
	})
}

// Whatever answer is lost during a takeover, there is a session, or, after a bounded time, no key
// without a holder is left.
// rule: N6
func TestALostAnswerDuringATakeover(t *testing.T) {
	for _, op := range inTakeover {
		for name, rule := range lossesOf(codes.Unavailable) {
			for _, times := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", op, name, times), func(t *testing.T) {
					inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
						s := r.session(lease.Options{TTL: 60 * time.Second})
						_, key, err := begin(s, "a/")
						require.NoError(t, err)
						r.Put(key, "", s.ID())
						h := s.Detach()
						host := r.successor()
						rule.Times, rule.Op = times, op
						f := r.Inject(rule)
						ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
						defer cancel()
						next, err := Grant(ctx, host, lease.Options{Resume: h})
						require.NoError(t, err)
						require.NotZero(t, f.Hits())
						r.LiftAll()
						assert.Nil(t, r.Get(key))
						sleep(time.Minute)
						require.NoError(t, next.Err())
						require.NoError(t, next.Close(context.Background()))
						assert.Empty(t, r.Keys(""))
					})
				})
			}
		}
	}
}

// T3, N6: a takeover during which the process is suspended for longer than the first window fails, and
// can be tried again.
func TestATakeoverWhoseFirstWindowHasEndedIsAnError(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		defer clock.SetSource(nil)
		clock.SetSource(func(time.Time) time.Duration { return 0 })
		s := r.session(lease.Options{TTL: 15 * time.Second})
		h := s.Detach()
		host := r.successor()
		r.Inject(etcdfake.Rule{Op: "confirm session", Times: 1, Edit: func(etcdfake.Request, etcdapi.Message) {
			clock.SetSource(func(time.Time) time.Duration { return time.Minute })
		}})
		next, err := Grant(context.Background(), host, lease.Options{Resume: h})
		assert.Nil(t, next)
		require.ErrorIs(t, err, lease.ErrExpired)

		next, err = Grant(context.Background(), host, lease.Options{Resume: h})
		require.NoError(t, err)
		require.NoError(t, next.Err())
		require.NoError(t, next.Close(context.Background()))
	})
}

func TestATakeoverReturnsWhenItsContextEndsAndLeavesNothing(t *testing.T) {
	rules := []etcdfake.Rule{{Method: "LeaseKeepAlive"}}
	for _, op := range inTakeover {
		rules = append(rules, etcdfake.Rule{Op: op})
	}
	for _, rule := range rules {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 300 * time.Second})
			_, key, err := begin(s, "a/")
			require.NoError(t, err)
			r.Put(key, "", s.ID())
			h := s.Detach()
			host := r.successor()
			rule.Hang = true
			f := r.Inject(rule)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			began := time.Now()
			next, err := Grant(ctx, host, lease.Options{Resume: h})
			assert.LessOrEqual(t, time.Since(began), 5*time.Second+100*time.Millisecond)
			require.NotZero(t, f.Hits(), rule.Op)
			r.LiftAll()
			if rule.Op == "leave the queue" { // the takeover succeeds; what was left open is removed in the background
				require.NoError(t, err)
				sleep(5 * time.Second)
				assert.Nil(t, r.Get(key))
				require.NoError(t, next.Close(context.Background()))
				return
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			sleep(301 * time.Second)
			assert.Empty(t, r.Leases())
		})
	}
}

// A7: the removal of what was left open, which a takeover waits for, does not hold it up beyond its
// context.
func TestATakeoverWaitsForARemovalNoLongerThanItsContext(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		_, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		h, host := s.Detach(), r.successor()
		f := r.Inject(etcdfake.Rule{Method: "Txn", Skip: 2, Hang: true, Lose: true}) // after the write of the session key, and the read of the first renewal
		ctx, cancel := context.WithTimeout(context.Background(), tidyWait/2)
		defer cancel()
		began := time.Now()
		next, err := Grant(ctx, host, lease.Options{Resume: h})
		require.NoError(t, err, "it is taken over")
		assert.NotZero(t, f.Hits())
		assert.LessOrEqual(t, time.Since(began), tidyWait/2+100*time.Millisecond)
		f.Lift()
		sleep(10 * time.Second)
		assert.Nil(t, r.Get(key))
		require.NoError(t, next.Close(context.Background()))
	})
}

func TestATakeoverWithoutADeadlineReturnsFromABlackHole(t *testing.T) {
	for _, op := range inTakeover {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 20 * time.Second})
			_, _, err := begin(s, "a/")
			require.NoError(t, err)
			h := s.Detach()
			host := r.successor()
			r.Inject(etcdfake.Rule{Op: op, Hang: true})
			began := time.Now()
			next, err := Grant(context.Background(), host, lease.Options{Resume: h})
			assert.LessOrEqual(t, time.Since(began), 45*time.Second)
			if op == "leave the queue" { // the takeover succeeds; what was left open is removed in the background
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(began), tidyWait+100*time.Millisecond)
				next.CloseInBackground()
				<-next.Stopped()
				return
			}
			require.Error(t, err)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "a bound that passed is no end of a context")
			assert.NotErrorIs(t, err, context.Canceled)
		})
	}
}

// A takeover waits for what its predecessor left open only while somebody removes it.
func TestATakeoverWaitsForNoRemovalThatIsNotBegun(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		r.open(s, 3)
		r.host.Cleanup.Close(0)
		began := time.Now()
		s.tidy(context.Background())
		assert.Zero(t, time.Since(began), "the client is closed")
		s.end(lease.ErrClosed, leave)
		s.tidy(context.Background())
		assert.Zero(t, time.Since(began), "the session has ended")
	})
}

func TestAKeyThatIsNotOfTheHandlesLeaseIsNotDeleted(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		h := r.session(lease.Options{TTL: 30 * time.Second}).Detach()
		r.Put("precious/1-1", "", 0)
		left := leftBy(h)
		left.ToRemove = []string{"precious/1-1"}
		h = handleOf(left)
		_, err := Grant(context.Background(), r.host, lease.Options{Resume: h})
		require.ErrorContains(t, err, "is not of lease")
		assert.NotNil(t, r.Get("precious/1-1"))
	})
}

// open begins n entries on s, every other of which is applied.
func (r *rig) open(s *Session, n int) (keys []string) {
	r.t.Helper()
	for i := range n {
		_, key, err := begin(s, fmt.Sprintf("open/%d/", i))
		require.NoError(r.t, err)
		if i%2 == 0 {
			r.Put(key, "", s.ID())
		}
		keys = append(keys, key)
	}
	return keys
}

// Rule N6: a takeover renews before it tidies, and removes what was left open in shared requests. At 30
// ms, 600 open entries cost a few requests, and no validity.
// rule: N6
func TestATakeoverOfHundredsOfOpenEntriesRenewsFirst(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		keys := r.open(s, 600)
		h := s.Detach()
		host := r.successor()
		for _, m := range r.Members() {
			m.SetDelay(etcdfake.Fixed(15*time.Millisecond), etcdfake.Fixed(15*time.Millisecond))
		}
		before, began := r.Counts(), time.Now()
		next := sessionOn(t, host, lease.Options{Resume: h})
		assert.Less(t, time.Since(began), time.Second)
		for i, key := range keys {
			require.Nil(t, r.Get(key))
			require.Nil(t, r.Get(string(next.CancelKey(int64(i+1)))), "the session key refuses late copies")
		}
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 14)
		sleep(time.Minute)
		require.NoError(t, next.Err())
	})
}

// Twelve seconds of failure in the middle of a takeover are no reason to revoke a lease of 300 s. There
// is a session, or the same process can try again.
// rule: N6
func TestTwelveSecondsOfFailureDuringATakeoverCostNoLease(t *testing.T) {
	places := []etcdfake.Rule{{Method: "LeaseKeepAlive"}, {Method: "LeaseKeepAlive", Skip: 1}, {Method: "LeaseKeepAlive", Skip: 2}}
	for _, op := range inTakeover {
		places = append(places, etcdfake.Rule{Op: op})
	}
	for _, at := range places {
		for name, rule := range lossesOf(codes.Unavailable) {
			t.Run(fmt.Sprintf("%s/%d/%s", at.Method+at.Op, at.Skip, name), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
					s := r.session(lease.Options{TTL: 300 * time.Second})
					key := r.open(s, 1)[0]
					held := r.Put("held", "", s.ID())
					h := s.Detach()
					host := r.successor()
					rule.Method, rule.Op, rule.Skip = at.Method, at.Op, at.Skip
					r.Inject(rule)
					time.AfterFunc(13*time.Second, r.LiftAll)
					next, err := Grant(context.Background(), host, lease.Options{Resume: h})
					if err != nil {
						sleep(20 * time.Second)
						next, err = Grant(context.Background(), host, lease.Options{Resume: h})
					}
					require.NoError(t, err)
					sleep(time.Minute)
					require.NoError(t, next.Err())
					assert.Nil(t, r.Get(key))
					assert.Equal(t, held, r.Get("held").CreateRevision)
					assert.Zero(t, r.Counts().Received["LeaseRevoke"])
					_, err = Grant(context.Background(), r.successor(), lease.Options{Resume: h})
					require.ErrorIs(t, err, lease.ErrTakenOver, "once it has succeeded it is used")
					require.NoError(t, next.Close(context.Background()))
				})
			})
		}
	}
}

// A takeover that failed because of its context or its answer leaves the lease to expire. If the same
// process tries again, it continues the same takeover.
func TestATakeoverThatFailedCanBeTriedAgainInTheSameProcess(t *testing.T) {
	for _, rule := range []etcdfake.Rule{{Op: "take over session"}, {Method: "LeaseKeepAlive"}, {Op: "confirm session"}} {
		t.Run(rule.Method+rule.Op, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				h := r.session(lease.Options{TTL: 60 * time.Second}).Detach()
				rule.Hang = true
				r.Inject(rule)
				for range 3 {
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					_, err := Grant(ctx, r.host, lease.Options{Resume: h})
					require.ErrorIs(t, err, context.DeadlineExceeded)
					cancel()
				}
				r.LiftAll()
				next := sessionOn(t, r.successor(), lease.Options{Resume: h})
				sleep(3 * time.Minute)
				require.NoError(t, next.Err())
				assert.Zero(t, r.Counts().Received["LeaseRevoke"])
			})
		})
	}
}

// N6: a process ends in the middle of a takeover, before its request is applied or after. A process
// that has the Handle with its claim continues it. One that has the Handle alone, or with another
// claim, is refused.
// rule: N6
func TestAClaimedTakeoverIsContinuedByAnotherProcess(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"it never arrives":              {Op: "take over session", Lose: true},
		"it is not answered":            {Op: "take over session", Hang: true},
		"it is applied before the next": {Op: "take over session", Late: time.Second},
		"it is applied after the next":  {Op: "take over session", Late: 5 * time.Second},
		"its renewal is not answered":   {Method: "LeaseKeepAlive", Hang: true},
		"it is taken over":              {Op: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				defer takeovers.Clear()
				alone := r.session(lease.Options{TTL: 60 * time.Second}).Detach()
				held := r.Put("held", "", leftBy(alone).Lease)
				h, other := Claim(alone), Claim(alone)
				require.NotEqual(t, h, other)
				require.Equal(t, h, Claim(h))
				r.Inject(rule)
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				if s, err := Grant(ctx, r.successor(), lease.Options{Resume: h}); err == nil {
					s.Detach()
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				r.LiftAll()
				takeovers.Clear() // another process knows of none

				next := sessionOn(t, r.successor(), lease.Options{Resume: h})
				for _, h := range []lease.Handle{alone, other} {
					_, err := Grant(context.Background(), r.successor(), lease.Options{Resume: h})
					require.ErrorIs(t, err, lease.ErrTakenOver)
				}
				sleep(2 * time.Minute)
				require.NoError(t, next.Err())
				assert.Equal(t, held, r.Get("held").CreateRevision)
				again := sessionOn(t, r.successor(), lease.Options{Resume: next.Detach()})
				require.NoError(t, again.Err())
			})
		})
	}
	assert.Equal(t, lease.Handle{}, Claim(lease.Handle{}))
}

// If two takeovers use one Handle at the same time, one of them succeeds, whatever is lost.
func TestOfTwoTakeoversAtOnceOneSucceeds(t *testing.T) {
	for name, rule := range lossesOf(codes.Unavailable) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				h := r.session(lease.Options{TTL: 60 * time.Second}).Detach()
				hosts := []Host{r.successor(), r.successor(), r.host}
				rule.Op, rule.Times = "take over session", 2
				r.Inject(rule)
				var won atomic.Int32
				var all sync.WaitGroup
				for _, host := range hosts {
					all.Go(func() {
						s, err := Grant(context.Background(), host, lease.Options{Resume: h})
						if err != nil {
							require.ErrorIs(t, err, lease.ErrTakenOver)
							return
						}
						won.Add(1)
						t.Cleanup(func() { s.CloseInBackground(); <-s.Stopped() })
					})
				}
				all.Wait()
				assert.EqualValues(t, 1, won.Load())
				assert.Zero(t, r.Counts().Received["LeaseRevoke"])
			})
		})
	}
}
