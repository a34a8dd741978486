package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// far makes each round trip to every member take so long, the making of a connection included. etcd says nothing on a
// connection before it has received something.
func (w *fixture) far(trip time.Duration) grpc.DialOption {
	for _, m := range w.f.Members() {
		m.SetDelay(etcdfake.Fixed(trip/2), etcdfake.Fixed(trip/2))
	}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		select {
		case <-time.After(trip + trip/2):
			return w.f.Dial(ctx, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// Its first use connects, asks a member what it is, logs in, grants a lease, puts the session key and enqueues. Each of
// these is a round trip, or two. Up to a fifth of the TTL they succeed and what is held stays; above it, what is lost is told in time.
// rule: N3
func TestTheFirstUseOfAFreshClientSucceedsUpToAFifthOfTheTTL(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, user := range []string{"", "root"} {
			for _, lazy := range []bool{false, true} {
				for _, ttl := range []time.Duration{3 * time.Second, 15 * time.Second} {
					for _, percent := range []time.Duration{1, 5, 10, 15, 20, 25, 50, 100} {
						trip := ttl * percent / 100
						t.Run(fmt.Sprintf("%d members, user %q, lazy %v, TTL %v, round trip %v", members, user, lazy, ttl, trip), func(t *testing.T) {
							inBubbleOf(t, members, func(w *fixture) { w.firstUse(user, lazy, ttl, trip, percent <= 20) })
						})
					}
				}
			}
		}
	}
}

// A try's usual limit is 3 s. A longer round trip lengthens it, for watches, too.
// rule: N3
func TestAWatchLivesOverARoundTripOfMoreThanThreeSeconds(t *testing.T) {
	for _, members := range []int{1, 3} {
		inBubbleOf(t, members, func(w *fixture) { w.firstUse("", false, 16*time.Second, 3200*time.Millisecond, true) })
	}
}

func (w *fixture) firstUse(user string, lazy bool, ttl, trip time.Duration, near bool) {
	var log inmemory.Log
	cfg := pawl.Config{Endpoints: w.f.Endpoints(), Lazy: lazy, Session: lease.Options{TTL: ttl}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if user != "" {
		w.f.EnableAuth("pw")
		cfg.Username, cfg.Password = user, "pw"
	}
	cfg.DialOptions = []grpc.DialOption{w.far(trip)}
	c, err := pawl.Dial(w.Context(), cfg)
	if near {
		require.NoError(w, err)
	}
	if err != nil {
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	h, err := lock.New(c, "far", lock.Options{}).Acquire(ctx)
	if near {
		require.NoError(w, err)
		time.Sleep(time.Minute)
		before := len(log.String())
		time.Sleep(3 * time.Minute)
		assert.NoError(w, h.Err())
		for _, fault := range []string{"failing", "failed", "replaced"} {
			assert.NotContains(w, log.String()[before:], fault)
		}
		assert.NoError(w, h.Release(w.Context()))
	}
	if err == nil && !near {
		deadline := h.Session().Deadline()
		select {
		case <-h.Done():
			assert.False(w, time.Now().After(deadline))
		case <-time.After(time.Minute):
			assert.NoError(w, h.Err())
		}
	}
}
