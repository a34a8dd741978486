package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// slow makes each round trip to every member take so long.
func (r *rig) slow(trip time.Duration) {
	half := func() time.Duration { return trip / 2 }
	for _, m := range r.Members() {
		m.SetDelay(half, half)
	}
}

// A TTL of five round trips is enough for a new session and for renewals, whether the network was slow before or not. Of
// fewer, one that is too short ends in order.
// rule: N3
func TestATTLOfFiveRoundTripsKeepsASession(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, ttl := range []time.Duration{3 * time.Second, 5 * time.Second, 10 * time.Second} {
			for _, percent := range []time.Duration{1, 5, 10, 15, 17, 18, 20, 25, 33, 50, 100} {
				for _, fresh := range []bool{true, false} {
					trip := ttl * percent / 100
					t.Run(fmt.Sprintf("%d members, TTL %v, round trip %v, slow before: %v", members, ttl, trip, fresh), func(t *testing.T) {
						inBubble(t, etcdfake.Options{Members: members}, func(t *testing.T, r *rig) {
							if fresh {
								r.slow(trip)
							}
							ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
							s, err := Grant(ctx, r.host, lease.Options{TTL: ttl})
							cancel()
							r.slow(trip)
							if percent <= 20 {
								require.NoError(t, err)
								sleep(100 * ttl)
								assert.NoError(t, s.Err())
							}
							if err == nil && percent >= 33 {
								deadline := s.Deadline()
								<-s.Done()
								assert.False(t, time.Now().After(deadline))
								oneCause(t, s.Err(), lease.ErrExpired)
							}
							if err == nil {
								s.CloseInBackground()
								<-s.Stopped()
							}
						})
					})
				}
			}
		}
	}
}

// rule: N3
func TestARoundTripAboveATwelfthOfTheTTLIsLoggedOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		e := &recorder{}
		h := e.host(t, r)
		for range 3 {
			sessionOn(t, h, lease.Options{TTL: 3 * time.Second})
		}
		r.slow(240 * time.Millisecond)
		sleep(time.Minute)
		assert.NotContains(t, e.log.String(), "round trips")
		assert.NotContains(t, e.log.String(), "jeopardy")
		r.slow(260 * time.Millisecond)
		sleep(time.Minute)
		assert.Equal(t, 1, e.log.count(`level=WARN msg="etcd is too far away for the TTL, which should be twelve round trips"`), e.log.String())
		assert.Equal(t, 3, e.log.count("session in jeopardy"), "once for each session, and not at each renewal")
		r.slow(100 * time.Millisecond)
		sleep(time.Minute)
		assert.Equal(t, 3, e.log.count(`level=INFO msg="session is renewed in time again"`), e.log.String())
		r.slow(260 * time.Millisecond)
		sleep(time.Minute)
		assert.Equal(t, 6, e.log.count("session in jeopardy"), "again")
	})
}
