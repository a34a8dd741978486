package session

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// LD1, LD3: the lease of a session with a lock-delay lasts longer than its TTL without a renewal, so a takeover
// can succeed after the TTL. What the predecessor had lost stays for the delay after that, and not after the
// beginning of the takeover.
// rule: LD3
func TestATakeoverThatLastsLongerThanTheTTLKeepsALockDelayWhole(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second, LockDelay: 20 * time.Second})
		n, key, err := begin(s, "a/")
		require.NoError(t, err)
		r.Put(key, "", s.ID())
		wins(s, n)
		isUnreleased(s, n)
		h := s.Detach()
		fails := r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Err: status.Error(codes.Unavailable, "etcdserver: no leader")})
		time.AfterFunc(10*time.Second, fails.Lift)
		next, err := Grant(context.Background(), r.host, lease.Options{Resume: h})
		require.NoError(t, err)
		defer next.Close(context.Background())
		sleep(20*time.Second - 1)
		assert.NotNil(t, r.Get(key), "the delay counts from the takeover")
		sleep(time.Second)
		assert.Nil(t, r.Get(key))
		assert.NoError(t, next.Err())
	})
}

// N6: a Handle's times are in milliseconds, and none is shorter than what is left.
func TestAHandleKeepsKeysForNoShorterThanTheyHaveToStay(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		for left, want := range map[time.Duration]time.Duration{1: time.Millisecond, time.Millisecond: time.Millisecond, 1500 * time.Microsecond: 2 * time.Millisecond} {
			n, _, err := begin(s, "a/")
			require.NoError(t, err)
			now := clock.Now()
			s.book.entries[n].keep().Until = now.Add(left)
			kept := s.book.keeps(now)
			require.Len(t, kept, 1)
			assert.Equal(t, want, kept[0].Left)
			s.book.entries[n].keeping = nil
		}
	})
}
