package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/lock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each lock held takes at most 2 KiB, including the watch of its key. The server is another
// process.
func TestALockHeldTakesLittleMemory(t *testing.T) {
	if racedetector.On {
		t.Skip("the race detector's own memory would be counted")
	}
	const n = 4_000
	c := realServer(t)
	ctx := context.Background()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{c}})
	require.NoError(t, err)
	defer client.Close()
	s, err := client.Session(ctx)
	require.NoError(t, err)
	held := make([]*lock.Held, 0, n)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("memory/", i)
	}
	before := heap()
	for _, name := range names {
		h, err := lock.New(s, name, lock.Options{}).Acquire(ctx)
		require.NoError(t, err)
		held = append(held, h)
	}
	becomes(t, "all are armed", func() bool { return counted(t, c, "etcd_debugging_mvcc_watcher_total")[""] >= n })
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes for each lock held", each)
	assert.LessOrEqual(t, each, 2048.0)
	runtime.KeepAlive(held)
	require.NoError(t, s.Close(ctx))
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
