package lock_test

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// With RecordFirst, a run that could not be recorded has not run, and Once says so.
func TestWhatCannotBeRecordedFirstHasNotRun(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.f.Inject(etcdfake.Rule{Op: "transaction", Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		var n atomic.Int64
		ran, err := lock.New(w.spare, "name", lock.Options{RecordFirst: true}).Once(w.Context(), firing, job(&n, nil))
		require.Error(w, err)
		assert.False(w, ran)
		assert.Zero(w, n.Load())
	})
}
