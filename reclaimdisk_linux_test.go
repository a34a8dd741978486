package pawl_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// standStill makes the disk of dir answer nothing, until goOn is called.
func standStill(t *testing.T, dir string) (goOn func()) {
	t.Helper()
	stands := make(chan struct{})
	still := func(path string) {
		if path == dir {
			<-stands
		}
	}
	reclaim.Standstill.Store(&still)
	var on bool
	goOn = func() {
		if !on {
			on = true
			reclaim.Standstill.Store(nil)
			close(stands)
		}
	}
	t.Cleanup(goOn)
	return goOn
}

func TestADiskThatStandsStillHoldsUpNoCall(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		session := func(c *pawl.Client) *pawl.Session {
			s, err := c.NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			return s
		}
		second := dial(t, fake, pawl.Config{ReclaimDir: dir})
		closed, detached, kept := session(c), session(c), session(second)
		h, err := lock.New(kept, "n", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		sleep(time.Second) // so that a new session sweeps
		goOn := standStill(t, dir)
		within := func(most time.Duration, what string, f func(ctx context.Context)) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			f(ctx)
			assert.LessOrEqual(t, time.Since(began), most, what)
		}
		const soon = 1100 * time.Millisecond
		within(soon, "Dial", func(ctx context.Context) {
			_, err := pawl.Dial(ctx, pawl.Config{Endpoints: fake.Endpoints(), ReclaimDir: dir})
			require.ErrorIs(t, err, reclaim.ErrSilent)
		})
		within(soon, "NewSession", func(ctx context.Context) {
			s, err := c.NewSession(ctx, lease.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Err())
		})
		within(soon, "Close", func(ctx context.Context) { require.NoError(t, closed.Close(ctx)) })
		within(2*time.Second, "Detach", func(context.Context) { assert.NotEqual(t, lease.Handle{}, detached.Detach()) })
		sleep(time.Minute)
		require.NoError(t, h.Err(), "its renewals go on")
		within(4*time.Second, "the client's Close", func(context.Context) { _ = c.Close() })
		assert.Len(t, filesIn(t, dir), 3)
		goOn()
		sleep(time.Second)
		assert.Equal(t, []string{filepath.Base(fileOf(t, dir, kept))}, filesIn(t, dir), "what came late is removed")
		require.NoError(t, kept.Err())
	})
}

func TestASessionOfADirectoryThatWasMadeAgainLeavesItsFileThere(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
		"removed and made again": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o700))
		},
		"another in its place": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			t.Cleanup(func() { _ = os.RemoveAll(dir + ".old") })
			require.NoError(t, os.Mkdir(dir, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := reclaimDir(t)
			inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
				before, err := c.NewSession(t.Context(), lease.Options{})
				require.NoError(t, err)
				again(t, dir)
				sleep(time.Second) // so that a new session sweeps
				s, err := c.NewSession(t.Context(), lease.Options{})
				require.NoError(t, err)
				file := fileOf(t, dir, s)
				sleep(time.Minute)
				require.NoError(t, before.Err(), "a file that nobody finds harms nobody")
				assert.Len(t, filesIn(t, dir), 1, "who was forked from this process before would not believe by a new file")
				require.NoError(t, before.Close(t.Context()))

				unmap(t, file)
				next, err := dial(t, fake, pawl.Config{ReclaimDir: dir}).NewSession(t.Context(), lease.Options{})
				require.NoError(t, err)
				left := fake.Leases()
				require.Len(t, left, 1)
				assert.Equal(t, next.ID(), left[0].ID)
			})
		})
	}
}
