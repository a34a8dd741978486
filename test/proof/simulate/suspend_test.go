package simulate

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
)

// The answer to a renewal lies in the socket while the machine sleeps beyond the
// deadline in force, and not beyond the one that the answer would bring. It is
// the first thing that runs afterwards.
func TestAnAnswerThatASuspendMadeLateBringsNothingBack(t *testing.T) {
	defer clock.SetSource(nil)
	for slept, want := range map[time.Duration]error{0: nil, 7 * time.Second: lease.ErrExpired} {
		synctest.Test(t, func(t *testing.T) {
			var gain atomic.Int64
			clock.SetSource(func(time.Time) time.Duration { return time.Duration(gain.Load()) })
			f := etcdfake.New(etcdfake.Options{})
			defer f.Close()
			c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: f.Endpoints(), DialOptions: []grpc.DialOption{f.DialOption()}})
			require.NoError(t, err)
			defer c.Close()
			s, err := c.NewSession(context.Background(), lease.Options{TTL: 12 * time.Second})
			require.NoError(t, err)
			f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: time.Second})

			time.Sleep(3800 * time.Millisecond) // renewals were sent since 3 s, and nobody looks until 4 s
			gain.Store(int64(slept))            // the deadline is at 10 s, and it is 10.8 s now
			time.Sleep(250 * time.Millisecond)
			assert.ErrorIs(t, s.Err(), want)
		})
	}
}
