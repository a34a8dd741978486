package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// fullPipe returns the end of a pipe that nobody reads, and that has no room left.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	fd := int(write.Fd()) // blocking, as that of a process is
	require.NoError(t, syscall.SetNonblock(fd, true))
	for err == nil {
		_, err = syscall.Write(fd, make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	require.NoError(t, syscall.SetNonblock(fd, false))
	return write
}

// The reader of its standard error stands still. It serves, keeps its clients' locks, and leaves them to the
// next one.
// rule: T6
func TestAFullStandardErrorEndsNothing(t *testing.T) {
	t.Parallel()
	etcd, dir, socket := ofOwn(t), filepath.Join(t.TempDir(), "state"), launch.Socket(t)
	cmd := exec.Command(os.Args[0], "--endpoints", etcd.Addr(), "--socket", socket, "--state-dir", dir, "--verbose")
	cmd.Stderr = fullPipe(t)
	p := beginCmd(t, cmd)
	p.http = unixClient(socket)
	p.waitFor(socket)
	first := p.hold(1, 1, "first")
	require.NoError(t, etcd.Restart()) // is logged
	p.hold(1, 2, "second")
	held := p.locks(1)
	require.Len(t, held, 2)
	assert.Equal(t, first["token"], held[0]["token"])
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.wait())
	left := stateIn(t, dir)
	require.Len(t, left.Sessions, 1)
	assert.Len(t, left.Sessions[0].Rows, 2)
}
