package pawl_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// reclaimDir is a new directory for Config.ReclaimDir.
func reclaimDir(t testing.TB) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/dev/shm"} {
		path, err := os.MkdirTemp(base, "reclaim")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(path) })
		var sys unix.Statfs_t
		require.NoError(t, unix.Statfs(path, &sys))
		if sys.Type != unix.OVERLAYFS_SUPER_MAGIC {
			return path
		}
	}
	t.Skip("neither the temporary directory nor /dev/shm is on tmpfs, ext4, xfs or btrfs")
	return ""
}

func filesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

// fileOf is the file that s has left.
func fileOf(t testing.TB, dir string, s *pawl.Session) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%016x-*", s.ID())))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// unmap lets go of a file's lock, as the death of its process does, or a checkpoint from which it is
// restored.
func unmap(t testing.TB, path string) {
	t.Helper()
	maps, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if words := strings.Fields(lines.Text()); words[len(words)-1] == path {
			var from, to uintptr
			_, err := fmt.Sscanf(words[0], "%x-%x", &from, &to)
			require.NoError(t, err)
			// Something else takes its place, so that nothing is there by chance when the File unmaps it.
			_, _, errno := unix.Syscall6(unix.SYS_MMAP, from, to-from, unix.PROT_NONE, unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
			require.Zero(t, errno)
			return
		}
	}
	require.Fail(t, "no process has mapped "+path)
}

// rule: RC1
func TestASessionsFileIsThereBeforeAnyOtherKeyAndGoneAfterItsEnd(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		var mu sync.Mutex
		files := map[string]int{} // that were there when a key was put
		fake.OnChange(func(ch etcdfake.Change) {
			mu.Lock()
			defer mu.Unlock()
			if !ch.Deleted {
				files[ch.Key] = len(filesIn(t, dir))
			}
		})
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		h, err := lock.New(s, "n", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		mu.Lock()
		assert.Equal(t, map[string]int{fmt.Sprintf("//pawl/%x", s.ID()): 0, h.Key(): 1}, files)
		mu.Unlock()
		require.NoError(t, s.Close(t.Context()))
		assert.Empty(t, filesIn(t, dir))
		_, err = c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		assert.Len(t, filesIn(t, dir), 1)
		require.NoError(t, c.Close())
		assert.Empty(t, filesIn(t, dir))
	})
}

func TestRegularEndsLeaveNoFile(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		for range 300 {
			s, err := c.NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Close(t.Context()))
		}
		assert.Empty(t, filesIn(t, dir))
		s, err := c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		fake.BlackHole()
		sleep(time.Minute)
		require.ErrorIs(t, s.Err(), lease.ErrExpired)
		sleep(time.Minute)
		assert.Empty(t, filesIn(t, dir))
		fake.Heal()
	})
}

// rule: RC5
func TestAFileIsGoneBeforeAnybodyHasTheHandle(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		was := fileOf(t, dir, s)
		handle := s.Detach()
		assert.Empty(t, filesIn(t, dir))
		next, err := dial(t, fake, pawl.Config{ReclaimDir: dir}).NewSession(t.Context(), lease.Options{Resume: handle})
		require.NoError(t, err)
		assert.NotEqual(t, was, fileOf(t, dir, next), "another revision of the session key")
	})
}

// rule: RC6
func TestASessionWhoseFileIsNotLockedAnyMoreEnds(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		file := fileOf(t, dir, s)
		require.NoError(t, os.Rename(file, file+".away"))
		sleep(s.TTL() / 4)
		require.NoError(t, s.Err(), "a file that nobody finds harms nobody")
		require.NoError(t, os.Rename(file+".away", file))
		unmap(t, file)
		sleep(s.TTL() / 4)
		require.ErrorIs(t, s.Err(), lease.ErrRevoked)
		require.ErrorContains(t, s.Err(), "checkpoint")
		assert.Empty(t, fake.Leases())
	})
}

// rule: RC4
func TestANewSessionFirstReclaimsWhatDeadProcessesHaveLeft(t *testing.T) {
	dir := reclaimDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{Members: 3})
		var mu sync.Mutex
		var seen []observe.Event
		observer := observe.Func(func(_ context.Context, ev observe.Event) {
			if ev, ok := ev.(observe.Reclaimed); ok {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, ev)
			}
		})
		dead := w.Dial(pawl.Config{ReclaimDir: dir})
		held := func(name string, o lease.Options) *pawl.Session {
			s, err := dead.NewSession(t.Context(), o)
			require.NoError(t, err)
			_, err = lock.New(s, name, lock.Options{}).Acquire(t.Context())
			require.NoError(t, err)
			return s
		}
		fast, slow, alive := held("fast", lease.Options{Owner: "ann"}), held("slow", lease.Options{LockDelay: 10 * time.Second}), held("alive", lease.Options{})
		unmap(t, fileOf(t, dir, fast))
		unmap(t, fileOf(t, dir, slow))
		began := time.Now()
		client := w.Dial(pawl.Config{ReclaimDir: dir, Observer: observer})
		s, err := client.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(began), "it does not wait longer for the lock-delay")
		_, err = lock.New(s, "fast", lock.Options{}).TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = lock.New(s, "slow", lock.Options{}).TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrBusy)
		synctest.Wait()
		mu.Lock()
		require.Len(t, seen, 1)
		first := seen[0].(observe.Reclaimed)
		mu.Unlock()
		assert.Equal(t, observe.Reclaimed{Lease: fast.ID(), Owner: "ann", After: first.After}, first)
		time.Sleep(9*time.Second - time.Since(began)) // its session has ended of rule RC6 by then, and revokes nothing either
		_, err = lock.New(s, "slow", lock.Options{}).TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrBusy)
		time.Sleep(11*time.Second - time.Since(began))
		_, err = lock.New(s, "slow", lock.Options{}).TryAcquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		mu.Lock()
		assert.Len(t, seen, 2)
		mu.Unlock()
		require.NoError(t, alive.Err())
		_, err = lock.New(s, "alive", lock.Options{}).TryAcquire(t.Context())
		require.ErrorIs(t, err, lock.ErrBusy)
	})
}

func TestASweepLeavesACallTimeForItsSession(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		dead, err := c.NewSession(t.Context(), lease.Options{LockDelay: time.Minute})
		require.NoError(t, err)
		unmap(t, fileOf(t, dir, dead))
		for name, makes := range map[string]func(*pawl.Client, context.Context) (*pawl.Session, error){
			"the client's": (*pawl.Client).Session,
			"another": func(c *pawl.Client, ctx context.Context) (*pawl.Session, error) {
				return c.NewSession(ctx, lease.Options{})
			},
		} {
			next := dial(t, fake, pawl.Config{ReclaimDir: dir})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := makes(next, ctx)
			cancel()
			require.NoError(t, err, name)
			require.NoError(t, next.Close(), name) // and others may have the proof
		}
	})
}

func TestAFileThatProvesNothingIsSaidOnceToTheLog(t *testing.T) {
	dir := reclaimDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		var log inmemory.Log
		c := w.Dial(pawl.Config{ReclaimDir: dir, Logger: log.Logger()})
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("{}"), 0o600))
		for range 3 {
			_, err := c.NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			sleep(time.Minute)
		}
		assert.Equal(t, 1, strings.Count(log.String(), "proves nothing"))
	})
}

func TestASessionThatCannotLeaveItsFileGoesOnAndSaysSoOnce(t *testing.T) {
	dir := reclaimDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		var log inmemory.Log
		c := w.Dial(pawl.Config{ReclaimDir: dir, Logger: log.Logger()})
		lost, err := c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		for range 3 {
			s, err := c.NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			sleep(time.Minute)
			require.NoError(t, s.Err())
		}
		require.NoError(t, lost.Err(), "a file that nobody finds harms nobody")
		require.NoError(t, c.Close())
		assert.Equal(t, 1, log.Warnings("if this process is killed, others wait until its lease expires"))
	})
}

func TestATakeoverWaitsForNoSweep(t *testing.T) {
	dir := reclaimDir(t)
	inBubble(t, pawl.Config{ReclaimDir: dir}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		dead, err := c.NewSession(t.Context(), lease.Options{LockDelay: time.Hour})
		require.NoError(t, err)
		unmap(t, fileOf(t, dir, dead))
		handle, began := s.Detach(), time.Now()
		_, err = dial(t, fake, pawl.Config{ReclaimDir: dir}).NewSession(t.Context(), lease.Options{Resume: handle})
		require.NoError(t, err)
		assert.Zero(t, time.Since(began))
	})
}

func TestAReclaimDirThatProvesNothingIsRefused(t *testing.T) {
	fake := etcdfake.New(etcdfake.Options{})
	defer fake.Close()
	dir := reclaimDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	for path, want := range map[string]string{dir: "0755", filepath.Join(dir, "no", "parent"): "no such file", "/proc/self": "/proc/self"} {
		_, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: fake.Endpoints(), ReclaimDir: path})
		require.ErrorContains(t, err, "Config.ReclaimDir")
		require.ErrorContains(t, err, want)
	}
}

// A session without ReclaimDir, and one with it, send the same.
func TestAReclaimDirCostsNoRequest(t *testing.T) {
	dir := reclaimDir(t)
	var sent [2]int
	for i, path := range []string{"", dir} {
		inBubble(t, pawl.Config{ReclaimDir: path}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
			s, err := c.NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			sleep(time.Minute)
			require.NoError(t, s.Close(t.Context()))
			for _, n := range fake.Counts().Received {
				sent[i] += n
			}
		})
	}
	assert.Equal(t, sent[0], sent[1])
}

// What Config.ReclaimDir costs a session, on the file system of the temporary directory, or tmpfs.
func BenchmarkASessionsFile(b *testing.B) {
	fake := etcdfake.New(etcdfake.Options{})
	defer fake.Close()
	for name, dir := range map[string]string{"without": "", "with": reclaimDir(b)} {
		b.Run(name, func(b *testing.B) {
			cfg := pawl.Config{Endpoints: fake.Endpoints(), ReclaimDir: dir}
			cfg.DialOptions = append(cfg.DialOptions, fake.DialOption())
			c, err := pawl.Dial(b.Context(), cfg)
			require.NoError(b, err)
			defer c.Close()
			for b.Loop() {
				s, err := c.NewSession(b.Context(), lease.Options{})
				require.NoError(b, err)
				require.NoError(b, s.Close(b.Context()))
			}
		})
	}
}
