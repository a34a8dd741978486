// Package statefile keeps in a directory what one pawld leaves to the next. The file contains the
// secrets of clients' sessions, so nobody else may read it. One pawld at a time has the directory.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
)

// A Dir is a state directory, locked by this process.
type Dir struct {
	path string
	lock *os.File
}

// Open locks the directory until Close, and makes it if it does not exist.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("state directory %s can be written by others (mode %v): make it 0700", path, info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("state directory %s belongs to user %d, and pawld runs as %d: what it reads there would be that user's: chown it to %d", path, st.Uid, os.Geteuid(), os.Geteuid())
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("state directory %s is in use by another pawld", path)
		}
		return nil, fmt.Errorf("state directory %s: lock: %w", path, err)
	}
	return &Dir{path, f}, nil
}

// Close unlocks the directory.
func (d *Dir) Close() error { return d.lock.Close() }

func (d *Dir) file() string { return filepath.Join(d.path, "state.json") }

// saved is the form of the file.
type saved struct {
	Version int
	service.Saved
}

const version = 1

// Write replaces the file, whole or not at all.
func (d *Dir) Write(s service.Saved) error {
	b, err := json.Marshal(saved{version, s})
	if err != nil {
		return err
	}
	temp := d.file() + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := os.Rename(temp, d.file()); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := d.sync(); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// ErrUnusable reports that this pawld cannot take over from the file.
var ErrUnusable = errors.New("it cannot be used")

// Discard removes the file, whatever it holds, so that it does not reappear after a power failure
// either.
func (d *Dir) Discard() error {
	if err := os.Remove(d.file()); err != nil {
		return err
	}
	return d.sync()
}

// sync makes the directory's entries outlast a power failure, on file systems that can.
func (d *Dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}

// Read reads the file, and returns false if there is none. The file stays until Discard, so that a
// process that is ended before the takeover leaves it to the next one.
func (d *Dir) Read() (s service.Saved, ok bool, err error) {
	info, err := os.Stat(d.file())
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("state: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return s, false, fmt.Errorf("state: %s can be read by others (mode %v), and holds secrets: %w", d.file(), info.Mode().Perm(), ErrUnusable)
	}
	b, err := os.ReadFile(d.file())
	if err != nil {
		return s, false, fmt.Errorf("state: %w", err)
	}
	if len(b) == 0 {
		return s, false, fmt.Errorf("state: %s is empty: %w", d.file(), ErrUnusable)
	}
	var in saved
	if err := json.Unmarshal(b, &in); err != nil {
		var other struct{ Version int } // its form may be another, too
		if json.Unmarshal(b, &other) != nil || other.Version == version || other.Version == 0 {
			return s, false, fmt.Errorf("state: %s: %w: %w", d.file(), ErrUnusable, err)
		}
		in.Version = other.Version
	}
	if in.Version != version {
		return s, false, fmt.Errorf("state: %s is of version %d, this pawld knows %d: %w", d.file(), in.Version, version, ErrUnusable)
	}
	return in.Saved, true, nil
}
