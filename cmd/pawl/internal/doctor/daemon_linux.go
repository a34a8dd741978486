package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// state checks where the daemon on a socket keeps what it leaves to the next one, as far as the
// flags of its process say.
func (d *doctor) state(socket string) {
	p, err := serving(socket)
	if err != nil {
		d.odd("state", "", fmt.Sprintf("where pawld keeps its state is not known here: %v", err),
			"look at its --state-dir: a directory on disk that outlives the unit, such as StateDirectory=")
		return
	}
	dir := p.flag("state-dir")
	if dir == "" {
		d.odd("state", "", "pawld has no --state-dir: before a restart it releases all locks, when no client believes in them any more",
			"give it a directory on disk that outlives the unit, such as StateDirectory=")
		return
	}
	fs, err := p.statfs(dir)
	if err != nil {
		d.odd("state", dir, fmt.Sprintf("cannot be looked at: %v", err), "run doctor as root, or as pawld's user")
		return
	}
	d.stateOn(dir, int64(fs.Type))
}

// stateOn says whether what is on a kind of file system outlives a restart.
func (d *doctor) stateOn(dir string, kind int64) {
	switch kind {
	case unix.OVERLAYFS_SUPER_MAGIC:
		d.odd("state", dir, "is on overlayfs, which is a container's own layer, and goes with the container: then a restart loses all locks",
			"mount a volume there, one that outlives the container")
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		d.odd("state", dir, "is in memory, and may go when the unit stops: then a restart loses all locks",
			"use StateDirectory=, or RuntimeDirectoryPreserve=restart beside RuntimeDirectory=")
	default:
		d.ok("state", dir, "is on disk, and outlives a restart")
	}
}

// A process is a pawld, with its arguments.
type process struct {
	pid  string
	args []string
}

// serving finds the pawld that serves a socket. If another process made the socket, as systemd
// does, that is the only pawld on this machine.
func serving(socket string) (process, error) {
	pid, err := madeBy(socket)
	if err != nil {
		return process{}, err
	}
	if p, ok := pawldOf(pid); ok {
		return p, nil
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return process{}, err
	}
	var found []process
	for _, proc := range all {
		if p, ok := pawldOf(filepath.Base(proc)); ok {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return process{}, fmt.Errorf("process %s made the socket, and %d others are called pawld", pid, len(found))
	}
	return found[0], nil
}

// pawldOf returns the process with a number, if it is called pawld.
func pawldOf(pid string) (process, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		return process{}, false
	}
	args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	return process{pid, args[1:]}, filepath.Base(args[0]) == "pawld"
}

// flag is the value of one of its flags, given as an argument or in the file of --config.
func (p process) flag(name string) (value string) {
	for i, arg := range p.args {
		if v, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return v
		}
		if arg == "--"+name && i+1 < len(p.args) {
			return p.args[i+1]
		}
	}
	if name == "config" {
		return ""
	}
	config := p.flag("config")
	if config == "" {
		return ""
	}
	b, err := os.ReadFile(p.path(config))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if n, v, ok := strings.Cut(line, "="); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// path is a path of the process's, whose directories may not be those of this one.
func (p process) path(path string) string {
	if !filepath.IsAbs(path) {
		return filepath.Join("/proc", p.pid, "cwd", path)
	}
	return filepath.Join("/proc", p.pid, "root", path)
}

// statfs reads the file system of a path, as the process sees it, or, without the permission for
// that, as this one does.
func (p process) statfs(path string) (fs unix.Statfs_t, err error) {
	if err = unix.Statfs(p.path(path), &fs); errors.Is(err, unix.EACCES) {
		err = unix.Statfs(path, &fs)
	}
	return fs, err
}

// madeBy is the process that has made a socket.
func madeBy(socket string) (pid string, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return "", err
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(cred.Pid), nil
}
