package hold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

// rule: RC4
func TestNothingIsReclaimedBeforeTheLockDelayOrAfterTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		delay  seconds
		left   time.Duration // until the deadline of what was held
		within time.Duration // how long the revocation may take; 0 if there is none
	}{
		"at once":                           {0, 12 * time.Second, 5 * time.Second},
		"until the lease ends":              {0, time.Second, time.Second},
		"too late":                          {0, 0, 0},
		"after a delay":                     {seconds(time.Minute), 12 * time.Second, 5 * time.Second},
		"after a delay and little is left":  {seconds(time.Minute), time.Second, time.Second},
		"after a delay and nothing is left": {seconds(time.Minute), -time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			o, began := &commonOptions{delay: c.delay}, time.Now()
			revoked := false
			err := o.afterDelay(t.Context(), 5*time.Second, began.Add(c.left), func(ctx context.Context) error {
				revoked = true
				assert.Equal(t, began.Add(time.Duration(c.delay)), time.Now(), name)
				end, _ := ctx.Deadline()
				assert.Equal(t, c.within, time.Until(end), name)
				return nil
			})
			assert.Equal(t, c.within > 0, revoked, name)
			assert.Equal(t, c.within > 0, err == nil, name)
		})
	}
}

func TestASignalEndsTheWaitForTheLockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(&supervise.Interrupted{}) })
		o := &commonOptions{delay: seconds(time.Minute)}
		err := o.afterDelay(ctx, time.Second, time.Now().Add(time.Minute), func(context.Context) error {
			assert.Fail(t, "it revokes")
			return nil
		})
		require.ErrorAs(t, err, new(*supervise.Interrupted))
	})
}
