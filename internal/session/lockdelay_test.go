package session

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// LD1, in integers: by a clock that is as fast as a sixth allows, the lease ends at least a delay after
// the deadline. It is granted for whole seconds, and no more than needed.
// rule: LD1
func TestALeaseLastsALockDelayLongerThanItsDeadline(t *testing.T) {
	for ttl := 3 * time.Second; ttl <= 60*time.Second; ttl += time.Second {
		for _, delay := range []time.Duration{0, 1, time.Millisecond, 700 * time.Millisecond, time.Second, 5 * time.Second, 7777 * time.Millisecond, time.Minute, 200 * time.Second} {
			v := validity{delay: delay}
			w := newWindow(clock.Instant{}, ttl, 0)
			lease := ttl + v.reserve()
			assert.Equal(t, lease, lease.Truncate(time.Second))
			assert.GreaterOrEqual(t, 5*lease, 6*(w.whole()+delay), "%v, %v", ttl, delay)
			assert.Less(t, 5*(lease-time.Second), 6*(w.whole()+delay)+6, "%v, %v", ttl, delay)
		}
	}
}

// N3: three renewals fit into the validity, whatever the margin. With a margin of a sixth they are due
// at quarters of the TTL.
func TestRenewalsFollowFromTheValidity(t *testing.T) {
	for ttl := 3 * time.Second; ttl <= 60*time.Second; ttl += time.Second {
		for _, margin := range []time.Duration{0, ttl / 5, ttl / 4, ttl / 3} {
			w := newWindow(clock.Instant{}, ttl, margin)
			assert.Less(t, 3*w.due(), w.whole())
			assert.Less(t, 2*w.due()+w.bound(), w.whole()+4*time.Nanosecond, "the second has time to be answered")
			assert.LessOrEqual(t, w.pause(9, w.whole()), w.whole()*3/20)
			assert.LessOrEqual(t, w.pause(9, time.Second), 250*time.Millisecond)
			assert.Equal(t, 2*w.pause(2, time.Hour), w.pause(3, time.Hour).Truncate(2))
			assert.Positive(t, w.pause(2, 0))
			if margin == 0 {
				assert.Equal(t, ttl/4, w.due())
				assert.Equal(t, ttl/3, w.bound())
			}
		}
	}
}

// LD1: the server has a longer lease. TTL, deadline and renewals do not differ.
// rule: LD1
func TestALockDelayChangesTheLeaseAlone(t *testing.T) {
	renewals := map[time.Duration][]time.Duration{}
	for _, delay := range []time.Duration{0, 20 * time.Second} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			began := time.Now()
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Match: func(q etcdfake.Request) bool {
				if _, ok := q.Message.(*pb.LeaseKeepAliveRequest); ok {
					renewals[delay] = append(renewals[delay], time.Since(began))
				}
				return false
			}})
			s := r.session(lease.Options{TTL: 6 * time.Second, LockDelay: delay})
			l, _ := r.Lease(s.ID())
			assert.Equal(t, 6*time.Second+delay*6/5, l.TTL)
			assert.Equal(t, 6*time.Second, s.TTL())
			assert.Equal(t, 5*time.Second, s.Validity())
			assert.Equal(t, began.Add(5*time.Second), s.Deadline())
			sleep(10 * time.Second)
			assert.Equal(t, 6*time.Second, s.TTL())
			assert.Equal(t, began.Add(9*time.Second+5*time.Second), s.Deadline())
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
			<-s.Done()
			assert.Equal(t, 14*time.Second, time.Since(began))
		})
	}
	require.Greater(t, len(renewals[0]), 6)
	assert.Equal(t, 6, quarters(renewals[0]))
	assert.Equal(t, 6, quarters(renewals[20*time.Second]))
}

// quarters counts the renewals at multiples of a quarter of 6 s, up to 9 s.
func quarters(all []time.Duration) (n int) {
	for _, at := range all {
		if at%(1500*time.Millisecond) == 0 && at <= 9*time.Second {
			n++
		}
	}
	return n
}

// LD1: a session that expires leaves its lease if it held something, and Close reports that at once. If
// it held nothing, others do not wait for the lease.
// rule: LD1
func TestAnExpiredSessionLeavesWhatItHeldToItsLockDelay(t *testing.T) {
	for name, holds := range map[string]bool{"held": true, "was held": true, "waited": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 6 * time.Second, LockDelay: 20 * time.Second})
				n, key, err := begin(s, "a/")
				require.NoError(t, err)
				r.Put(key, "", s.ID())
				c := &dependent{own: key}
				if holds {
					require.NoError(t, c.holds(s, n, false))
				}
				if name == "was held" {
					sleep(time.Second)
					isUnreleased(s, n)
				}
				r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
				<-s.Done()
				began := time.Now()
				err = s.Close(context.Background())
				assert.Zero(t, time.Since(began))
				if holds {
					assert.ErrorIs(t, err, cluster.ErrUnknown)
					assert.ErrorContains(t, err, "left to expire")
					sleep(20*time.Second - 1)
				}
				_, there := r.Lease(s.ID())
				assert.Equal(t, holds, there)
				sleep(6 * time.Second)
				_, there = r.Lease(s.ID())
				assert.False(t, there)
			})
		})
	}
}

// LD3: a Handle says what is kept, however often the session is taken over, and each process keeps it for
// the whole delay.
// rule: LD3
func TestAHandleListsWhatALockDelayKeeps(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second, LockDelay: 20 * time.Second})
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		wins(s, n)
		isUnreleased(s, n)
		leaves(s, n)
		for range 3 {
			sleep(15 * time.Second)
			require.NotNil(t, r.Get(key))
			h := s.Detach()
			assert.Equal(t, 20*time.Second, leftBy(h).LockDelay)
			assert.Equal(t, []string{key}, toRemove(h))
			began := time.Now()
			s = sessionOn(t, r.successor(), lease.Options{Resume: h, LockDelay: time.Second})
			assert.Zero(t, time.Since(began), "a takeover does not wait for it")
			assert.Equal(t, 20*time.Second, s.LockDelay(), "that of the lease")
			assert.Equal(t, 6*time.Second, s.TTL())
		}
		sleep(20*time.Second - 1)
		assert.NotNil(t, r.Get(key))
		sleep(time.Second)
		assert.Nil(t, r.Get(key))
		require.NoError(t, s.Err())
		began := time.Now()
		require.NoError(t, s.Close(context.Background()))
		assert.Zero(t, time.Since(began), "nothing is kept any more")
		synctest.Wait()
	})
}

// LD2, LD3, V4, ML6: from when keys may go, for each reason to keep them.
// rule: LD2
func TestKeysMayGoWhenTheLastReasonToKeepThemHasPassed(t *testing.T) {
	at := func(seconds int) clock.Instant { return clock.Instant{}.Add(time.Duration(seconds) * time.Second) }
	const delay = 20 * time.Second
	for _, c := range []struct {
		name         string
		keep         Keep
		delay        time.Duration
		idle, closed bool
		want         int // -1 while that is not known
	}{
		{"never held, or released", Keep{}, delay, false, false, 0},
		{"released", Keep{Until: at(90)}, delay, false, false, 90},
		{"released, and the session closed", Keep{Until: at(90)}, delay, false, true, 0},
		{"lost", Keep{Ended: at(1)}, 0, true, false, 0},
		{"lost, with a lock-delay", Keep{Ended: at(1)}, delay, true, false, 21},
		{"its work goes on", Keep{Ended: at(1)}, delay, false, false, -1},
		{"its work goes on, and the session ended", Keep{Ended: at(1)}, delay, false, true, -1},
		{"its work has ended", Keep{Ended: at(1), WorkEnded: at(16)}, delay, false, false, 36},
		{"its work has ended, without a lock-delay", Keep{Ended: at(1), WorkEnded: at(16)}, 0, false, false, 0},
		{"promised", Keep{Ended: at(1), Promised: at(31)}, 0, true, true, 31},
		{"promised, with a lock-delay", Keep{Ended: at(1), Promised: at(31), WorkEnded: at(16)}, delay, true, true, 51},
		{"promised, and the work ended later", Keep{Ended: at(1), Promised: at(11), WorkEnded: at(16)}, delay, true, true, 36},
		{"AtLeast lasts longer", Keep{Ended: at(1), Until: at(90)}, delay, true, false, 90},
		{"AtLeast lasts less", Keep{Ended: at(1), Until: at(9)}, delay, true, false, 21},
		{"AtLeast, and the session ended", Keep{Ended: at(1), Until: at(90)}, delay, true, true, 21},
		{"a set", Keep{Ended: at(1), Unclaimed: at(7)}, 0, true, false, 7},
		{"a set, and the session ended", Keep{Ended: at(1), Unclaimed: at(7)}, 0, true, true, 0},
		{"a set that was given back", Keep{Ended: at(1), Unclaimed: at(7), Promised: at(31), Released: true}, 0, false, false, 0},
		{"a set that was given back, with a lock-delay", Keep{Ended: at(1), Unclaimed: at(7), Promised: at(31), Released: true}, delay, false, false, 51},
		{"a set that was given back, with AtLeast", Keep{Ended: at(1), Until: at(90), Released: true}, delay, false, false, 90},
	} {
		got, ok := c.keep.May(c.delay, c.idle, c.closed)
		assert.Equal(t, c.want >= 0, ok, c.name)
		if ok {
			assert.Equal(t, time.Duration(c.want)*time.Second, got.Sub(at(0)), c.name)
		}
	}
}

// LD3: a takeover adds nothing to a lock-delay. What is resumed, and ends with its session, stays for one
// delay after that, and nothing stays if nothing can have been held.
// rule: LD3
func TestATakeoverAddsNothingToALockDelay(t *testing.T) {
	const delay = 10 * time.Second
	for name, holds := range map[string]bool{"held": true, "held, and released": true, "held after others, and released": true, "held, and released for later": true, "nothing held": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: time.Minute, LockDelay: delay})
				c := &dependent{}
				var n int64
				if strings.Contains(name, "after others") {
					for range 3 {
						other, _, err := begin(s, "a/")
						require.NoError(t, err)
						isAbsent(s, other)
					}
				}
				if holds {
					var err error
					n, c.own, err = begin(s, "a/")
					require.NoError(t, err)
					r.Put(c.own, "", s.ID())
					require.NoError(t, c.holds(s, n, false))
				}
				next := sessionOn(t, r.successor(), lease.Options{Resume: s.Detach()})
				if holds {
					require.True(t, adopt(next, n, c.own))
				}
				if strings.HasSuffix(name, ", and released") {
					step(next, n, state.Released{}, state.DeleteSent{}, state.DeleteAnswered{Outcome: state.Applied, Exact: true})
				}
				if name == "held, and released for later" {
					next.mu.Lock()
					next.Limit(next.book.entries[n], Limits{AtLeast: time.Hour})
					next.mu.Unlock()
					step(next, n, state.Released{Later: true})
				}
				sleep(3 * time.Second)
				began := time.Now()
				require.NoError(t, next.Close(context.Background()))
				if name == "held" {
					assert.Equal(t, delay, time.Since(began), "after the end, and no longer")
				} else {
					assert.Zero(t, time.Since(began))
				}
				_, there := r.Lease(s.ID())
				assert.False(t, there)
			})
		})
	}
}

// LD3: the lock-delay counts from the end of the work that a session's end found under way, even if the work ends
// before anything looks at the lease.
// rule: LD3
func TestALockDelayCountsFromTheEndOfWorkThatEndsAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: time.Minute, LockDelay: 10 * time.Second})
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		done := s.DeferRevocation()
		c := &dependent{own: key, onEnd: func(error) {
			time.Sleep(5 * time.Second) // until what is held has been told of the end
			done()
		}}
		require.NoError(t, c.holds(s, n, false))
		began := time.Now()
		go s.CloseInBackground()
		require.NoError(t, s.Close(context.Background()))
		assert.Equal(t, 15*time.Second, time.Since(began))
	})
}
