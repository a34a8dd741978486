package shards

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// Any loads that workers tell, too, change only who gets a shard next, and for how long it stays.
// rule: SH14
func TestItConvergesWhateverLoadsAreTold(t *testing.T) {
	first := testscale.Seed(t)
	for i := range uint64(testscale.Of(20, 2000)) {
		seed := first + i
		s := New(Config{Seed: seed, N: 1 + int(seed%13), Lag: time.Second, Moves: int(seed % 3), PerLease: []int{0, 1, 3}[seed/3%3], Loads: true})
		for range 1 + seed%5 {
			s.Join(1)
		}
		s.Adversary(7, 500*time.Millisecond)
		s.Run(time.Duration(30+seed%2*90) * time.Second)
		s.Join(1)
		s.Quiet(25 * time.Minute)
		require.Empty(t, s.Broken(), "PAWL_SEED=%d", seed)
	}
}

// Whatever an adversary does for half a minute: nobody has a shard twice, and soon after it has
// stopped, all shards are shared out, and stay.
// rule: SH2
func TestItConvergesWhenTheAdversaryStops(t *testing.T) {
	first := testscale.Seed(t)
	for i := range uint64(testscale.Of(60, 5000)) {
		seed := first + i
		s := New(Config{Seed: seed, N: 1 + int(seed%13), Lag: time.Second, Moves: int(seed % 3), PerLease: []int{0, 1, 3}[seed/3%3]})
		for range 1 + seed%5 {
			s.Join(1)
		}
		s.Adversary(7, 500*time.Millisecond)
		s.Run(30 * time.Second)
		s.Join(1)
		s.Quiet(25 * time.Minute) // what has failed is remembered for 10 minutes, and a trial is up to 10 away
		require.Empty(t, s.Broken(), "PAWL_SEED=%d", seed)
	}
}
