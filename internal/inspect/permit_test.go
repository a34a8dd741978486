package inspect_test

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// What a holder's process takes from it looks like a release, as with a lock.
func TestAPermitThatWasTakenFromItsHolderIsReleased(t *testing.T) {
	inBubble(t, func(w *fixture) {
		f := w.follow(inspect.Scope{})
		p, err := lock.NewSemaphore(w.Session("ann"), "gpu", 2, lock.Options{MaxHold: time.Second}).Acquire(w.Context())
		require.NoError(w, err)
		f.reports("gpu acquired")
		<-p.Done()
		f.reports("gpu released (key deleted)")
	})
}
