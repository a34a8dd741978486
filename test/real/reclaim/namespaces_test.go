//go:build linux

package reclaim_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/reclaim"
)

// own are namespaces of a child's own. Who is not root gets them with one of users.
func own(flags uintptr) syscall.SysProcAttr {
	attr := syscall.SysProcAttr{Cloneflags: flags}
	if os.Getuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// mounts makes a file system in a namespace of its own, and says what a publisher finds there.
func mounts(args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("skip: no mounts here: %w", err)
	}
	what, at := args[0], args[1]
	do := map[string]func(string) error{"overlay": overlay, "full": full, "readonly": readOnly, "boot": boot}[what]
	return do(at)
}

func tmpfs(at, options string) error {
	if err := unix.Mount("none", at, "tmpfs", 0, "mode=0700"+options); err != nil {
		return fmt.Errorf("skip: no tmpfs here: %w", err)
	}
	return nil
}

func overlay(at string) error {
	if err := tmpfs(at, ""); err != nil {
		return err
	}
	for _, dir := range []string{"l", "u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(at, dir), 0o700); err != nil {
			return err
		}
	}
	merged := filepath.Join(at, "m")
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s/l,upperdir=%s/u,workdir=%s/w", at, at, at)); err != nil {
		return fmt.Errorf("skip: no overlayfs here: %w", err)
	}
	_, err := reclaim.Open(merged)
	fmt.Println("opens", err)
	return nil
}

func full(at string) error {
	if err := tmpfs(at, ",size=16k,nr_inodes=6"); err != nil {
		return err
	}
	d, err := reclaim.Open(at)
	if err != nil {
		return err
	}
	f, err := d.Publish(left)
	if err != nil {
		return err
	}
	big, err := os.Create(filepath.Join(at, ".big"))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = big.Write(make([]byte, 1<<10))
	}
	other := left
	other.Lease++
	_, err = d.Publish(other)
	fmt.Println("no room", errors.Is(err, unix.ENOSPC), err)
	var more error
	for i := 0; more == nil; i++ {
		more = os.WriteFile(filepath.Join(at, fmt.Sprintf(".%d", i)), nil, 0o600)
	}
	_, err = d.Publish(other)
	fmt.Println("no inode", errors.Is(err, unix.ENOSPC), err)
	lost, err := f.Check()
	fmt.Println("check", lost, err)
	names, err := d.Names()
	fmt.Println("files", names, err)
	fmt.Println("removed", f.Remove())
	return nil
}

func readOnly(at string) error {
	if err := tmpfs(at, ""); err != nil {
		return err
	}
	d, err := reclaim.Open(at)
	if err != nil {
		return err
	}
	if err := unix.Mount("none", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("skip: %w", err)
	}
	_, err = d.Publish(left)
	fmt.Println("publishes", errors.Is(err, unix.EROFS), err)
	if err := unix.Mount("none", at, "", unix.MS_REMOUNT, ""); err != nil {
		return err
	}
	// While a file is published its mount cannot become read-only, so the directory is made immutable.
	f, err := d.Publish(left)
	if err != nil {
		return err
	}
	if err := immutable(at, unix.STATX_ATTR_IMMUTABLE); err != nil {
		return fmt.Errorf("skip: no immutable directory here: %w", err)
	}
	err = f.Remove()
	fmt.Println("removes", errors.Is(err, unix.EPERM), err)
	_, err = d.Claim(name)
	fmt.Println("locked", errors.Is(err, reclaim.ErrAlive), err)
	lost, err := f.Check()
	fmt.Println("check", lost, err)
	if err := immutable(at, 0); err != nil {
		return err
	}
	fmt.Println("removed", f.Remove())
	return nil
}

// immutable sets the flags of a directory, as chattr does.
func immutable(path string, flags int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func boot(at string) error {
	masked := filepath.Join(at, "boot_id")
	if err := os.WriteFile(masked, []byte(strings.Repeat("0", 8)+"-0000-0000-0000-"+strings.Repeat("0", 12)+"\n"), 0o600); err != nil {
		return err
	}
	if err := unix.Mount(masked, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("skip: %w", err)
	}
	_, err := reclaim.Open(at)
	fmt.Println("opens", err)
	return nil
}

// lines are what a child in mounts says until its end.
func mounted(t *testing.T, what string) (lines []string) {
	t.Helper()
	p := start(t, own(unix.CLONE_NEWNS), "mounts", what, newPath(t))
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
		if reason, ok := strings.CutPrefix(p.lines.Text(), "error skip: "); ok {
			t.Skip(reason)
		}
	}
	return lines
}

// rule: RC2
func TestOverlayfsIsRefused(t *testing.T) {
	assert.Contains(t, strings.Join(mounted(t, "overlay"), "\n"), "its file system is overlayfs, want tmpfs")
}

// rule: RC2
func TestAMaskedBootIDIsRefused(t *testing.T) {
	assert.Contains(t, strings.Join(mounted(t, "boot"), "\n"), "something is mounted on it")
}

// rule: RC1
func TestAFullFileSystemHasNoHalfFile(t *testing.T) {
	lines := mounted(t, "full")
	require.Len(t, lines, 5, "%q", lines)
	assert.Contains(t, lines[0], "no room true")
	assert.Contains(t, lines[1], "no inode true")
	assert.Equal(t, "check false <nil>", lines[2])
	assert.Equal(t, "files ["+name+"] <nil>", lines[3])
	assert.Equal(t, "removed <nil>", lines[4])
}

// rule: RC5
func TestWhatCannotBeRemovedStaysLocked(t *testing.T) {
	lines := mounted(t, "readonly")
	require.Len(t, lines, 5, "%q", lines)
	assert.Contains(t, lines[0], "publishes true")
	assert.Contains(t, lines[1], "removes true")
	assert.Contains(t, lines[2], "locked true")
	assert.Equal(t, "check false <nil>", lines[3])
	assert.Equal(t, "removed <nil>", lines[4])
}

// Containers of a pod share a directory, and neither processes nor mounts.
// rule: RC2
func TestADeathInOtherNamespacesIsProved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("without root such a process has another user namespace, where its user has another number")
	}
	path := newPath(t)
	p := begin(t, syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}, path)
	p.does("close")
	alive(t, path)
	p.kill()
	dead(t, path)
}

// A user namespace gives its user another number, so neither takes the other's word for anything.
// rule: RC2
func TestAFileOfAnotherUserNamespaceIsNoProof(t *testing.T) {
	path := newPath(t)
	attr := syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1234, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1234, HostID: os.Getgid(), Size: 1}},
	}
	p := begin(t, attr, path)
	p.kill()
	_, err := open(t, path).Claim(name)
	require.ErrorContains(t, err, "it is of user 1234")
}
