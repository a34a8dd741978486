package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

const nobody = 65534

// A set-user-ID program that an unprivileged pawl starts, as sudo is one, is warned of
// when it is started; pawl keeps the lock for as long as it works.
func TestAProgramOfAnotherUserIsWarnedOfAndKeepsItsLock(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a program of root's")
	}
	s := etcdtest.Start(t)
	dir, err := os.MkdirTemp("", "setuid")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	pawl, worker := filepath.Join(dir, "pawl"), filepath.Join(dir, "worker")
	self, err := os.Executable()
	require.NoError(t, err)
	for path, mode := range map[string]os.FileMode{pawl: 0o755, worker: 0o755 | os.ModeSetuid} {
		require.NoError(t, exec.Command("cp", self, path).Run())
		require.NoError(t, os.Chmod(path, mode))
	}
	out := filepath.Join(dir, "out")

	p := beginAs(t, nobody, s.Addr(), pawl, "lock", "--ttl", "9", "n", "--", worker, out)
	var id int
	_, err = fmt.Sscanf(next(t, p.lines()), "works %d", &id)
	require.NoError(t, err)

	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	staysBusy(t, s, "n") // it ignores TERM, and cannot be killed
	require.NoError(t, unix.Kill(id, unix.SIGKILL))
	assert.Equal(t, 128+int(unix.SIGKILL), p.code(t))
	assert.Contains(t, p.stderr.String(), worker+" runs as user 0: pawl may not end it")
	eventually(t, func() bool { return !busy(t, s, "n") }, "the lock is still taken")
}
