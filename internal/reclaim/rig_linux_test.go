package reclaim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// newDir opens a new directory on a file system on which deaths can be proved.
func newDir(t testing.TB) *Dir {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/dev/shm"} {
		path, err := os.MkdirTemp(base, "reclaim")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(path) })
		d, err := Open(path)
		if err == nil {
			t.Cleanup(func() { _ = d.f.Close() })
			return d
		}
		t.Log(err)
	}
	t.Skip("neither the temporary directory nor /dev/shm is on tmpfs, ext4, xfs or btrfs")
	return nil
}

// again opens d's directory once more, as another process would.
func again(t testing.TB, d *Dir) *Dir {
	t.Helper()
	other, err := Open(d.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.f.Close() })
	return other
}

// left is what a session leaves.
func left(lease int64) Left {
	return Left{Remains: session.Remains{Cluster: 1<<64 - 1, Lease: lease, Create: 2, Mod: 3}, Key: "ns\xff//pawl/session/7", LockDelay: 5, Owner: "ann"}
}

// publish leaves a file, which is removed at the test's end.
func publish(t testing.TB, d *Dir, l Left) *File {
	t.Helper()
	f, err := d.Publish(l)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Remove() })
	return f
}

// die lets go of f's lock as the death of its process does.
func die(f *File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlock()
}

// in returns the path of a file in d.
func in(d *Dir, name string) string { return filepath.Join(d.path, name) }
