package reclaim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Claim is proof that nobody believes any more in what a Left describes. It keeps the file locked, so
// that nobody else has the proof. The caller has to call Settle, or LetGo.
type Claim struct {
	Left
	dir    *Dir
	name   string
	is     identity
	proved clock.Instant

	mu   sync.Mutex
	file *os.File // keeps the lock; nil once it is let go of
}

// Claim returns proof that nobody has the memory any more of the process that left the file with that name
// (rule RC2). The lock alone is none: the file may be a copy.
func (d *Dir) Claim(name string) (_ *Claim, err error) {
	if strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/') {
		return nil, fmt.Errorf("%q is no published file", name)
	}
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	c := &Claim{dir: d, name: name, file: os.NewFile(uintptr(fd), name)}
	if err := c.prove(); err != nil {
		c.LetGo()
		return nil, err
	}
	return c, nil
}

// prove gets the lock, and finds out whether the file is what its content says.
func (c *Claim) prove() error {
	fd := int(c.file.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxSize {
		return errors.New("it is no file of a session")
	}
	switch err := flock(fd, unix.LOCK_EX); err {
	case nil:
	case unix.EWOULDBLOCK:
		return ErrAlive
	default:
		return os.NewSyscallError("flock", err)
	}
	c.proved = clock.Now()
	if err := unix.Fstat(fd, &st); err != nil { // once more: somebody may have reclaimed it meanwhile
		return os.NewSyscallError("fstat", err)
	}
	text, err := io.ReadAll(io.LimitReader(c.file, maxSize))
	if err != nil {
		return err
	}
	var p place
	if c.Left, p, err = decode(text); err != nil {
		return err
	}
	c.is = identityOf(&st)
	return c.dir.genuine(c.name, p, &st)
}

// genuine returns why a locked file is not the one that a process of this kernel has left.
func (d *Dir) genuine(name string, p place, st *unix.Stat_t) error {
	switch is := identityOf(st); {
	case st.Nlink == 0:
		return os.ErrNotExist
	case st.Nlink != 1:
		return fmt.Errorf("it has %d names, want one", st.Nlink)
	case p.Boot != d.boot:
		return errOtherBoot
	case p.UID != st.Uid || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it is of user %d, and belongs to %d", p.UID, st.Uid)
	case is != identity{p.Device, p.Inode}:
		return fmt.Errorf("it is a copy: it is file %d of device %d, and names %d of %d", is.inode, is.device, p.Inode, p.Device)
	case p.Name != name:
		return fmt.Errorf("it was renamed: it names %q", p.Name)
	}
	return nil
}

// errOtherBoot says that a file is of another kernel, or of the time before a reboot. That is no proof.
var errOtherBoot = errors.New("it is of another boot of this machine, or of another machine")

// remove removes the file, and then lets go of its lock (rule RC5). A file that cannot be removed stays
// locked.
func (c *Claim) remove() error {
	c.mu.Lock()
	file := c.file
	c.file = nil
	c.mu.Unlock() // LetGo waits for no file system
	if file == nil {
		return nil
	}
	if err := c.dir.remove(c.name, c.is); err != nil {
		stuck.Store(c.is, file)
		return fmt.Errorf("remove %s in %s: %w", c.name, c.dir.path, err)
	}
	return file.Close()
}

// stuck are the files that could not be removed, by identity. They stay locked, so that nobody reclaims
// again and again what they are about.
var stuck sync.Map

// LetGo lets go of the lock, so that others can have the proof.
func (c *Claim) LetGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
}

// Names are the names of the published files. It removes what a process has left that died while it
// published.
func (d *Dir) Names() (names []string, err error) {
	fd, err := unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.path, Err: err}
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	all, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
			continue
		}
		d.tidy(name)
	}
	return names, nil
}

// unpublished is for how long a file that is not published is left alone.
const unpublished = time.Minute

// tidy removes a file that was not published if it is old, and nobody has locked it. At worst its process
// publishes nothing.
func (d *Dir) tidy(name string) {
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || time.Since(time.Unix(st.Mtim.Unix())) < unpublished {
		return
	}
	if flock(fd, unix.LOCK_EX) == nil {
		_ = d.remove(name, identityOf(&st))
	}
}
