//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// lockRetry is the pause between tries for a lock that another process holds. flock cannot wait
// under a context.
const lockRetry = 2 * time.Millisecond

// A locked is the directory, with its write lock. The lock is on the directory itself and not
// on a file in it, so that nobody can let a second writer in by deleting that file. All work
// under the lock uses root, which stays this directory even if its path now names another.
type locked struct {
	root *os.Root
	dir  *os.File // has the lock; the kernel takes it from a process that dies
}

// lock takes the write lock, which all objects of the directory have in common. It waits until ctx ends.
func (d Dir) lock(ctx context.Context) (l locked, err error) {
	if l.root, err = os.OpenRoot(d.Path); err != nil {
		return locked{}, err
	}
	if l.dir, err = l.root.Open("."); err == nil {
		err = flock(ctx, l.dir)
	}
	if err != nil {
		return locked{}, errors.Join(err, l.unlock())
	}
	return l, nil
}

func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("flock %s: %w", f.Name(), err)
		}
		if !backoff.Sleep(ctx, lockRetry) {
			return context.Cause(ctx)
		}
	}
}

// unlock releases the lock, by closing the file that has it.
func (l locked) unlock() error {
	err := l.root.Close()
	if l.dir != nil {
		err = errors.Join(err, l.dir.Close())
	}
	return err
}

// replace writes a temporary file and renames it. The caller holds the lock, so nobody else uses the
// temporary file; one that a dead process left is overwritten. What fails before the rename matches
// ErrNotApplied.
func (l locked) replace(file string, data []byte) error {
	beside := file + ".new"
	if err := l.write(beside, data); err != nil {
		_ = l.root.Remove(beside)
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if err := l.root.Rename(beside, file); err != nil {
		return err
	}
	return l.dir.Sync()
}

func (l locked) write(file string, data []byte) error {
	f, err := l.root.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
