package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
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
	for name, holds := range map[string]bool{"held": true, "waited": false} {
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
