package reclaim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// published counts the files of this process.
var published atomic.Int64

// A File is a session's file. It is safe for concurrent use.
type File struct {
	dir  *Dir
	name string
	is   identity

	mu   sync.Mutex
	mem  []byte   // keeps the lock; nil once it is let go of
	kept *os.File // keeps it too, for processes that inherit it; nil if there is none
}

// An identity is what a file keeps, whatever its name.
type identity struct{ device, inode uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} } //nolint:unconvert // 32 bits on some architectures

// Publish leaves a file for l. It is there under its name once it is whole and locked (rule RC1). After an
// error no file is left.
func (d *Dir) Publish(l Left) (*File, error) { return d.publish(l, false) }

// PublishFor is Publish for the processes that this one starts from now on, who believe as well. They inherit
// a descriptor, as those that flock(1) starts.
func (d *Dir) PublishFor(l Left) (*File, error) { return d.publish(l, true) }

func (d *Dir) publish(l Left, inherit bool) (_ *File, err error) {
	if published.Add(1) > Most {
		published.Add(-1)
		return nil, fmt.Errorf("reclaim: this process has left %d files, which is the most", Most)
	}
	f := &File{dir: d, name: l.name()}
	hidden := "." + f.name
	fd, err := d.open(hidden, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		published.Add(-1)
		return nil, fmt.Errorf("reclaim: publish in %s: %w", d.path, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(d.fd(), hidden, 0)
			f.unlock()
			err = fmt.Errorf("reclaim: publish %s in %s: %w", f.name, d.path, err)
		}
	}()
	if err := f.fill(fd, l); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	if inherit {
		f.kept = os.NewFile(uintptr(fd), f.name)
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	} else if err := unix.Close(fd); err != nil {
		return nil, os.NewSyscallError("close", err)
	}
	if err := f.locked(hidden); err != nil {
		return nil, err
	}
	if err := unix.Renameat2(d.fd(), hidden, d.fd(), f.name, unix.RENAME_NOREPLACE); err != nil {
		return nil, os.NewSyscallError("rename", err)
	}
	return f, nil
}

// Inherited is the descriptor that PublishFor's processes inherit, or nil. f may be nil.
func (f *File) Inherited() *os.File {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept
}

// fill locks the file, keeps the lock by a mapping, and writes the content.
func (f *File) fill(fd int, l Left) error {
	if err := flock(fd, unix.LOCK_EX); err != nil {
		return os.NewSyscallError("flock", err)
	}
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err != nil {
		return os.NewSyscallError("fstat", err)
	}
	f.is = identityOf(&st)
	text, err := encode(l, place{f.dir.boot, st.Uid, f.is.device, f.is.inode, f.name})
	if err != nil {
		return err
	}
	switch n, err := unix.Write(fd, text); {
	case err != nil:
		return os.NewSyscallError("write", err)
	case n < len(text):
		return io.ErrShortWrite
	}
	// Nobody touches the page, so a file that is cut short by others harms nobody.
	f.mem, err = unix.Mmap(fd, 0, 1, unix.PROT_NONE, unix.MAP_SHARED)
	return os.NewSyscallError("mmap", err)
}

// errNotLocked says that the lock is not this process's.
var errNotLocked = errors.New("the file is not locked by this process's memory")

// locked returns errNotLocked if the file with that name, which another description opens, can be locked.
func (f *File) locked(name string) error {
	again, err := f.dir.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(again)
	var st unix.Stat_t
	if err := unix.Fstat(again, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if identityOf(&st) != f.is {
		return fmt.Errorf("another file has the name %s", name)
	}
	switch err := flock(again, unix.LOCK_EX); err {
	case unix.EWOULDBLOCK:
		return nil
	case nil:
		return errNotLocked
	default:
		return os.NewSyscallError("flock", err)
	}
}

// Check looks at the file (rule RC6). lost says that it is not locked any more, as after a checkpoint from
// which this process was restored: then somebody could prove the death of a process that lives. Any other
// error says that nobody will find the file.
func (f *File) Check() (lost bool, err error) {
	err = f.locked(f.name)
	return errors.Is(err, errNotLocked), err
}

// Remove removes the file, and then lets go of its lock (rule RC5). A file that cannot be removed stays
// locked until this process's end.
func (f *File) Remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mem == nil {
		return nil
	}
	if err := f.dir.remove(f.name, f.is); err != nil {
		return fmt.Errorf("reclaim: remove %s in %s: %w", f.name, f.dir.path, err)
	}
	f.unlock()
	return nil
}

// unlock lets go of the lock.
func (f *File) unlock() {
	if f.mem != nil {
		_ = unix.Munmap(f.mem)
		f.mem = nil
	}
	if f.kept != nil {
		f.kept.Close()
		f.kept = nil
	}
	published.Add(-1)
}

// open opens a file of the directory, and waits for no other process. It returns a descriptor, and no
// os.File, which costs two calls of the system's more.
func (d *Dir) open(name string, flags int) (fd int, err error) {
	for {
		fd, err := unix.Openat(d.fd(), name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR:
		default:
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// remove removes a file if its name has it. It is no error if the name has no file, or another.
func (d *Dir) remove(name string, is identity) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT, err == nil && identityOf(&st) != is:
		return nil
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	}
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil && err != unix.ENOENT {
		return os.NewSyscallError("unlink", err)
	}
	return nil
}

// flock locks without waiting.
func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}
