//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// A Dir is a Store in a directory of a local disk, shared by any number of processes. It is not for network file systems. It is there on systems with flock.
//
// Each object is a file, whose first line has the metadata and whose rest is the body. A file is replaced whole, by rename, under a lock that its kernel takes from a process
// that dies, and both file and directory are synced before Put returns, and the directory before Get does: what was written or refused stays so over a crash of the machine. A process that is
// stopped in the middle of a Put keeps others from writing for as long, until their contexts end; not from reading.
type Dir struct {
	Path string // of a directory that is there
}

// Stat reads the first line of the object's file.
func (d Dir) Stat(ctx context.Context, name string) (Meta, Version, error) {
	_, m, at, err := d.Get(ctx, name)
	return m, at, err
}

// Get reads the object's file.
func (d Dir) Get(ctx context.Context, name string) ([]byte, Meta, Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, Meta{}, "", err
	}
	data, err := os.ReadFile(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Meta{}, "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err == nil {
		// What is acted on must last: its writer may have died before it synced.
		err = syncDir(d.Path)
	}
	if err != nil {
		return nil, Meta{}, "", err
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	m, err := parseHead(string(head), name)
	if err != nil {
		return nil, Meta{}, "", fmt.Errorf("%s: %w", d.file(name), err)
	}
	return body, m, Version(m.Nonce), nil
}

// Put replaces the object's file. The nonce of m must be new: it is the version.
func (d Dir) Put(ctx context.Context, name string, body []byte, m Meta, at Version) error {
	unlock, err := d.lock(ctx, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	defer unlock()
	_, now, err := d.Stat(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if now != at {
		return fmt.Errorf("%w: %q, not %q", ErrChanged, now, at)
	}
	return d.replace(d.file(name), append([]byte(formatHead(m, name)), body...))
}

// replace writes a file beside and renames it. The lock is held, so that the file beside is nobody else's; one that was left by a process that died is overwritten.
func (d Dir) replace(file string, data []byte) error {
	beside := file + ".new"
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(beside, file); err != nil {
		return err
	}
	return syncDir(d.Path)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

const headMark = "pawl-blob-1"

func formatHead(m Meta, name string) string {
	return fmt.Sprintf("%s %d %s %t %s\n", headMark, int64(m.Token), m.Nonce, m.Absent, strconv.Quote(name))
}

func parseHead(line, name string) (m Meta, err error) {
	var mark, quoted string
	if n, _ := fmt.Sscanf(line, "%s %d %s %t %q", &mark, (*int64)(&m.Token), &m.Nonce, &m.Absent, &quoted); n != 5 || mark != headMark {
		return Meta{}, errors.New("the file is not of this package")
	}
	if quoted != name {
		return Meta{}, fmt.Errorf("the file is of the object %.64q", quoted)
	}
	return m, nil
}

// maxEncoded leaves room for suffixes in a file name of 255 bytes.
const maxEncoded = 200

func (d Dir) file(name string) string { return filepath.Join(d.Path, fileName(name)) }

// fileName encodes a name so that it is one element of a path, not hidden, without a point, and another one for each name also where
// case does not count. A long one ends in its hash.
func fileName(name string) string {
	var b []byte
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02x", c)
		}
	}
	if len(b) <= maxEncoded {
		return string(b)
	}
	sum := sha256.Sum256([]byte(name))
	return string(b[:maxEncoded-1-2*len(sum)]) + "~" + hex.EncodeToString(sum[:])
}
