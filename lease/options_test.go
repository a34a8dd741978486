package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Rule T5: 3 s ≤ TTL ≤ 24 h. Others are refused with the bounds in the error.
// rule: T5
func TestTTLOutOfBoundsIsRefusedAndTheErrorNamesThem(t *testing.T) {
	for _, ttl := range []time.Duration{-1, 1, time.Second, 3*time.Second - 1, 24*time.Hour + 1, 48 * time.Hour} {
		err := Options{TTL: ttl}.Check()
		require.Error(t, err, "%v", ttl)
		assert.Contains(t, err.Error(), "Options.TTL")
		assert.Contains(t, err.Error(), "3s")
		assert.Contains(t, err.Error(), "24h0m0s")
	}
	for _, ttl := range []time.Duration{0, 3 * time.Second, 3*time.Second + 1, 15 * time.Second, 300*time.Second + 1, 24 * time.Hour} {
		assert.NoError(t, Options{TTL: ttl}.Check(), "%v", ttl)
	}
}

func TestTTLIsRoundedUpToSeconds(t *testing.T) {
	assert.Equal(t, 15*time.Second, Options{}.WithDefaults().TTL)
	assert.Equal(t, 3*time.Second, Options{TTL: 3 * time.Second}.WithDefaults().TTL)
	assert.Equal(t, 4*time.Second, Options{TTL: 3*time.Second + 1}.WithDefaults().TTL)
	assert.Equal(t, 300*time.Second, Options{TTL: 299*time.Second + 1}.WithDefaults().TTL)
}

// Rule T2: Margin may only enlarge the sixth, up to a third.
func TestMarginBelowASixthOrAboveAThirdIsRefused(t *testing.T) {
	for _, m := range []time.Duration{-1, 1, time.Second - 1, 2*time.Second + 1, 6 * time.Second} {
		err := Options{TTL: 6 * time.Second, Margin: m}.Check()
		require.Error(t, err, "%v", m)
		assert.Contains(t, err.Error(), "Options.Margin")
	}
	for _, m := range []time.Duration{0, time.Second, 1500 * time.Millisecond, 2 * time.Second} {
		assert.NoError(t, Options{TTL: 6 * time.Second, Margin: m}.Check(), "%v", m)
	}
}

// The bounds are those of the lease that is taken over, not of the default.
func TestMarginOfAResumedSessionIsCheckedAgainstTheHandlesTTL(t *testing.T) {
	h := handleOf(detached.State{Lease: 1, Cluster: 2, TTL: 6 * time.Second, Key: "k", Create: 3, Mod: 3, Next: 1})
	assert.NoError(t, Options{Resume: h, Margin: time.Second}.Check())
	assert.Error(t, Options{Resume: h, Margin: 2*time.Second + 1}.Check(), "more than a third of 6 s")
	assert.Error(t, Options{Resume: h, Margin: 5 * time.Second}.Check(), "a third of the default TTL")
}

func TestOverlongOwnerIsRefused(t *testing.T) {
	assert.NoError(t, Options{Owner: strings.Repeat("x", maxOwner)}.Check())
	assert.ErrorContains(t, Options{Owner: strings.Repeat("x", maxOwner+1)}.Check(), "Options.Owner")
}

func TestOwnerIsHostAndPidByDefault(t *testing.T) {
	assert.Regexp(t, `^.+:[0-9]+$`, Options{}.WithDefaults().Owner)
	assert.Equal(t, "me", Options{Owner: "me"}.WithDefaults().Owner)
}

// LD1: 1.2 times LockDelay plus the TTL is 24 h at most.
func TestALockDelayIsBoundedTogetherWithTheTTL(t *testing.T) {
	for _, o := range []Options{{}, {LockDelay: 1}, {LockDelay: time.Minute}, {TTL: 18 * time.Hour, LockDelay: 5 * time.Hour}, {TTL: 24 * time.Hour}} {
		assert.NoError(t, o.Check(), "%+v", o)
		rounded := o.WithDefaults().LockDelay
		assert.GreaterOrEqual(t, rounded, o.LockDelay)
		assert.Equal(t, rounded, rounded.Truncate(time.Millisecond))
	}
	for _, o := range []Options{{LockDelay: -1}, {LockDelay: 20 * time.Hour}, {TTL: 18 * time.Hour, LockDelay: 5*time.Hour + 1}, {TTL: 24 * time.Hour, LockDelay: 1}} {
		assert.ErrorContains(t, o.Check(), "Options.LockDelay is", "%+v", o)
	}
	assert.ErrorContains(t, Options{TTL: 18 * time.Hour, LockDelay: 6 * time.Hour}.Check(), "want 0 to 5h0m0s with a TTL of 18h0m0s")
}
