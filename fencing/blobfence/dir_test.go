//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestDirKeepsNoMoreThanItsObjects(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	f := blobfence.Fence{Store: d}
	for i := range 100 {
		require.NoError(t, f.Write(t.Context(), "one", 57, fmt.Append(nil, i)))
	}
	files, err := os.ReadDir(d.Path)
	require.NoError(t, err)
	assert.Len(t, files, 1)
}

// An administrator, or a job that tidies, removes whatever is not an object.
func TestDirKeepsItsOrderWhileAllElseInItIsDeleted(t *testing.T) {
	removed := 0
	for try := 0; try < 100 && removed == 0; try++ { // on a fast disk little is there long enough to be removed
		removed = raceOnATidiedDir(t)
	}
	assert.NotZero(t, removed)
}

// raceOnATidiedDir returns how many files that a write was about to rename were removed.
func raceOnATidiedDir(t *testing.T) (removed int) {
	const attempts, most = 100, 60 // so that every write ends, however slow the disk is
	d := blobfence.Dir{Path: t.TempDir()}
	rec := fencetest.Record(guarded{blobfence.Fence{Store: d, Attempts: attempts}})
	seed := testscale.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	stop := make(chan struct{})
	var tidied sync.WaitGroup
	tidied.Go(func() { // ends when the race is over
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rnd.Int64N(int64(time.Millisecond)))):
			}
			files, _ := os.ReadDir(d.Path)
			for _, f := range files {
				beside := strings.HasSuffix(f.Name(), ".new")
				if f.Name() == "one" || f.Name() == "two" || beside && removed == most {
					continue
				}
				if os.Remove(filepath.Join(d.Path, f.Name())) == nil && beside {
					removed++
				}
			}
		}
	})
	last := fencetest.Race(t.Context(), rec, 6, 25, seed)
	close(stop)
	tidied.Wait()
	for _, name := range fencetest.RaceResources {
		_, err := rec.Read(t.Context(), name, last+1)
		require.NoError(t, err)
	}
	require.NoError(t, fencetest.Check(rec.History()))
	return removed
}

func TestDirPutThatFailsBeforeTheRenameIsNotApplied(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(d.Path, "a.new"), 0o755)) // in the way of the file beside
	err := blobfence.Fence{Store: d}.Write(t.Context(), "a", 57, []byte("x"))
	assert.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.NotErrorIs(t, err, blobfence.ErrUnknown)
}

func TestDirPutWaitsForAnotherUntilItsContextEnds(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	other, err := os.Open(d.Path)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	waits := waited{ctx, make(chan struct{}, 1)}
	put := make(chan error, 1)
	go func() { put <- d.Put(waits, "a", nil, blobfence.Meta{Token: 57, Nonce: "A"}, "") }() // ends with the context
	<-waits.begun
	cancel()
	err = <-put
	assert.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.ErrorIs(t, err, context.Canceled)
	require.NoError(t, other.Close())
	require.NoError(t, d.Put(t.Context(), "a", nil, blobfence.Meta{Token: 57, Nonce: "A"}, ""))
}

// A waited is a context that says when it is first waited for.
type waited struct {
	context.Context
	begun chan struct{}
}

func (w waited) Done() <-chan struct{} {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

// A directory that was removed while a Put waited is not written to, nor is it made again.
func TestDirThatIsRemovedWhileAPutWaitsIsNotWrittenTo(t *testing.T) {
	d := blobfence.Dir{Path: filepath.Join(t.TempDir(), "objects")}
	require.NoError(t, os.Mkdir(d.Path, 0o755))
	other, err := os.Open(d.Path)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	put := make(chan error, 1)
	waits := waited{t.Context(), make(chan struct{}, 1)}
	go func() { put <- d.Put(waits, "a", nil, blobfence.Meta{Token: 57, Nonce: "A"}, "") }() // ends with the Put
	<-waits.begun
	require.NoError(t, os.Remove(d.Path))
	require.NoError(t, other.Close())
	assert.ErrorIs(t, <-put, blobfence.ErrNotApplied)
	assert.NoDirExists(t, d.Path)
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

// TestLocker is run by the test below, in a separate process, and writes until it is killed.
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
		ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
		require.NoError(t, blobfence.Fence{Store: d}.Write(ctx, "a", 57, []byte("after")))
		cancel()
	}
}

func TestDirFileOfAReaderIsRefusedByWhatKnowsNoReaders(t *testing.T) {
	d := blobfence.Dir{Path: t.TempDir()}
	f := blobfence.Fence{Store: d}
	require.NoError(t, f.Write(t.Context(), "a", 41, []byte("x")))
	head := func() string {
		data, err := os.ReadFile(filepath.Join(d.Path, "a"))
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(data), "\n")
		return first
	}
	assert.True(t, strings.HasPrefix(head(), "pawl-blob-1 41 "), head())
	_, err := f.ReadShared(t.Context(), "a", 57)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(head(), "pawl-blob-2 16 57 "), head())
	require.NoError(t, f.Write(t.Context(), "a", 58, []byte("y")))
	assert.True(t, strings.HasPrefix(head(), "pawl-blob-1 58 "), head())
	for _, bad := range []string{"pawl-blob-2 0 57 N false \"a\"\n", "pawl-blob-2 58 57 N false \"a\"\n", "pawl-blob-2 57 N false \"a\"\n", "pawl-blob-3 1 57 N false \"a\"\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(d.Path, "a"), []byte(bad), 0o644))
		_, err := f.Read(t.Context(), "a", 60)
		assert.ErrorContains(t, err, "not of this package", bad)
	}
}
