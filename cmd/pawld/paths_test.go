package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// policyOf is a policy of one line.
func policyOf(t *testing.T, line string) *policy.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
	p, err := policy.Load(path)
	require.NoError(t, err)
	return p
}

// The bound of a socket's path is named, and is where the kernel has it.
func TestAPathThatIsTooLongForASocketIsRefused(t *testing.T) {
	dir := filepath.Dir(launch.Socket(t))
	for n, refused := range map[int]bool{mostPath: false, mostPath + 1: true} {
		path := filepath.Join(dir, strings.Repeat("x", n-len(dir)-1))
		require.Len(t, path, n)
		l, err := listenUnix(path, "")
		if refused {
			require.ErrorContains(t, err, fmt.Sprintf("has %d bytes, and the path of a Unix socket has at most 107", n))
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// A link that stands where the socket was made is not followed: its group may be another file's.
func TestTheGroupIsGivenToNothingBehindALink(t *testing.T) {
	group := otherGroup(t)
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, giveTo(link, group.Name))
	info, err := os.Stat(target)
	require.NoError(t, err)
	assert.NotEqual(t, group.Gid, fmt.Sprint(info.Sys().(*syscall.Stat_t).Gid))
}

// A state file that cannot be used: a start is refused, and says what to do; with --discard-state it is
// not.
func TestAStateFileThatCannotBeUsedIsDiscardedOnRequestAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file := filepath.Join(dir, "state.json")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	args := []string{"--endpoints", "127.0.0.1:1", "--socket", launch.Socket(t), "--state-dir", dir}
	p := begin(t, args...)
	p.awaitEnd(exitFailed)
	assert.Contains(t, p.said(), "is empty")
	assert.Contains(t, p.said(), "--discard-state")
	require.FileExists(t, file)
	p = begin(t, append(args, "--discard-state")...)
	p.awaitSaid("its clients lose their locks")
	p.awaitSaid("serving")
	assert.NoFileExists(t, file)
}
