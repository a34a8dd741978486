//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stripes is the number of lock files of a directory. They stay: to remove a lock file is to have two of them.
const stripes = 16

// lockRetry is how often a lock that another process has is tried. flock cannot be waited for under a context.
const lockRetry = 2 * time.Millisecond

// lock takes the write lock that the object has in common with others, until the returned function is called or the process dies.
func (d Dir) lock(ctx context.Context, name string) (unlock func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(name))
	f, err := os.OpenFile(filepath.Join(d.Path, fmt.Sprintf(".lock%02d", h.Sum32()%stripes)), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which gives the lock up: the file was opened here
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("flock %s: %w", f.Name(), err), f.Close())
		}
		if err := sleep(ctx, lockRetry); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}
