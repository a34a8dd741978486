package reclaim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Watch tells which files of a directory lose their last reference. One goroutine at a time uses it, and
// any goroutine may close it.
type Watch struct {
	f   *os.File
	buf []byte
}

// Watch begins to watch the directory. Whatever ends from now on is seen. A file's publisher has it open for
// writing, so the end of its last reference differs from that of a reader's.
func (d *Dir) Watch() (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", d.path, os.NewSyscallError("inotify_init", err))
	}
	f := os.NewFile(uintptr(fd), "inotify")
	// By descriptor, because another directory may have the path by now.
	path := fmt.Sprintf("/proc/self/fd/%d", d.fd())
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_CLOSE_WRITE|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR); err != nil {
		f.Close()
		return nil, fmt.Errorf("watch %s: %w", d.path, os.NewSyscallError("inotify_add_watch", err))
	}
	return &Watch{f: f, buf: make([]byte, 64<<10)}, nil
}

// Next waits for what is seen next, or for Close.
func (w *Watch) Next() (seen []Ending, err error) {
	n, err := w.f.Read(w.buf)
	if err != nil {
		return nil, err
	}
	for b := w.buf[:n]; len(b) > 0; {
		if len(b) < unix.SizeofInotifyEvent {
			return nil, fmt.Errorf("inotify: %w", io.ErrUnexpectedEOF)
		}
		mask, length := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		if len(b) < unix.SizeofInotifyEvent+length {
			return nil, fmt.Errorf("inotify: %w", io.ErrUnexpectedEOF)
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], []byte{0})
		b = b[unix.SizeofInotifyEvent+length:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			seen = append(seen, Ending{All: true})
		case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
			seen = append(seen, Ending{Gone: true})
		case mask&unix.IN_CLOSE_WRITE != 0 && !strings.HasPrefix(string(name), "."):
			seen = append(seen, Ending{Name: string(name)})
		}
	}
	return seen, nil
}

// Close ends the watch, and Next.
func (w *Watch) Close() error {
	if err := w.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
