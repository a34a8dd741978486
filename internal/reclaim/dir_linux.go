package reclaim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// A Dir is a directory in which sessions leave their files. It is safe for concurrent use.
type Dir struct {
	path string
	f    *os.File // open for as long as the Dir is in use
	boot string   // the kernel's boot ID
}

// Open opens a directory, which it makes if there is none. Its error says why no death can be proved
// there.
func Open(path string) (*Dir, error) {
	if path == "" {
		return nil, errors.New("no directory is named")
	}
	answers(path)
	boot, err := bootID(bootFile)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := checkDir(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Dir{path: path, f: f, boot: boot}, nil
}

// Path is the directory's, as it was opened.
func (d *Dir) Path() string { return d.path }

// fd is for a call of the system's.
func (d *Dir) fd() int {
	answers(d.path)
	return int(d.f.Fd())
}

// Moved reports whether the path leads to another directory by now, or to none.
func (d *Dir) Moved() bool {
	answers(d.path)
	was, err := d.f.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(d.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(was, is)
}

// checkDir returns why a directory is not one in which a death can be proved (rule RC2).
func checkDir(f *os.File) error {
	var st unix.Stat_t
	var sys unix.Statfs_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := unix.Fstatfs(int(f.Fd()), &sys); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch me := os.Geteuid(); {
	case int(st.Uid) != me:
		return fmt.Errorf("it belongs to user %d, want %d, who runs this program", st.Uid, me)
	case st.Mode&0o777 != 0o700:
		return fmt.Errorf("its mode is %04o, want 0700, so that nobody else writes there", st.Mode&0o777)
	}
	return checkFileSystem(int64(sys.Type))
}

// proved are the file systems on which a lock of flock is held by a mapping. Of others overlayfs frees it
// at once, and NFS, FUSE and 9p have it on another machine, or not at all.
var proved = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
}

func checkFileSystem(magic int64) error {
	if proved[magic] != "" {
		return nil
	}
	what := fmt.Sprintf("%#x", magic)
	if magic == unix.OVERLAYFS_SUPER_MAGIC {
		what = "overlayfs"
	}
	return fmt.Errorf("its file system is %s, want tmpfs, ext4, xfs or btrfs, where a lock outlives nobody who believes in it", what)
}

const bootFile = "/proc/sys/kernel/random/boot_id"

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// bootID returns what the kernel drew when it booted. A container may have another file in its place, which
// proves nothing.
func bootID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the kernel's boot ID: %w", err)
	}
	defer f.Close()
	var sys unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &sys); err != nil {
		return "", fmt.Errorf("the kernel's boot ID: %w", os.NewSyscallError("fstatfs", err))
	}
	if int64(sys.Type) != unix.PROC_SUPER_MAGIC {
		return "", fmt.Errorf("the kernel's boot ID: %s is not the kernel's file: something is mounted on it", path)
	}
	text := make([]byte, 64)
	n, err := f.Read(text)
	id := strings.TrimSpace(string(text[:n]))
	if err != nil || !uuid.MatchString(id) {
		return "", fmt.Errorf("the kernel's boot ID: %s has %q", path, id)
	}
	return id, nil
}
