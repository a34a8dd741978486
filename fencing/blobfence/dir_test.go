//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/blobfence"
)

func TestDirKeepsNoMoreThanItsObjectsAndLocks(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	f := blobfence.Fence{Store: d}
	for i := range 100 {
		require.NoError(t, f.Write(t.Context(), "one", 57, fmt.Append(nil, i)))
	}
	files, err := os.ReadDir(d.Path)
	require.NoError(t, err)
	assert.Len(t, files, 2)
}

func TestDirRefusesAFileThatIsNotItsOwn(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(d.Path, "plain"), []byte("hello\nworld"), 0o644))
	_, err := blobfence.Fence{Store: d}.Read(t.Context(), "plain", 57)
	assert.ErrorContains(t, err, "not of this package")
	assert.Error(t, blobfence.Fence{Store: d}.Write(t.Context(), "plain", 57, nil))
}

func TestDirThatIsNotThereIsAnErrorAndIsNotMade(t *testing.T) {
	d := blobfence.Dir{Path: filepath.Join(t.TempDir(), "nowhere")}
	assert.Error(t, blobfence.Fence{Store: d, Attempts: 2}.Write(t.Context(), "a", 57, nil))
	assert.NoDirExists(t, d.Path)
}

func TestDirPutThatDiedHalfWayIsNoObjectAndDoesNotDisturb(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	f := blobfence.Fence{Store: d}
	require.NoError(t, f.Write(t.Context(), "a", 41, []byte("whole")))
	require.NoError(t, os.WriteFile(filepath.Join(d.Path, "a.new"), []byte("pawl-blob-1 99 ha"), 0o644))
	body, err := f.Read(t.Context(), "a", 41)
	require.NoError(t, err)
	assert.Equal(t, "whole", string(body))
	require.NoError(t, f.Write(t.Context(), "a", 57, []byte("next")))
}

const lockerVariable = "BLOBFENCE_LOCKER"

// TestLocker is run by the test below, in a process of its own: it writes until it is killed.
func TestLocker(t *testing.T) {
	path := os.Getenv(lockerVariable)
	if path == "" {
		t.Skip("runs only as a child")
	}
	f := blobfence.Fence{Store: blobfence.Dir{Path: path}}
	for i := 0; ; i++ {
		require.NoError(t, f.Write(context.Background(), "a", 57, fmt.Append(nil, i)))
		if i == 0 {
			fmt.Println("writing")
		}
	}
}

func TestLockOfAProcessThatIsKilledIsFree(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	for range 5 {
		child := exec.Command(os.Args[0], "-test.run=^TestLocker$")
		child.Env = append(os.Environ(), lockerVariable+"="+d.Path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "writing") {
		}
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		require.NoError(t, blobfence.Fence{Store: d}.Write(ctx, "a", 57, []byte("after")))
		cancel()
	}
}
