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
	"strings"

	"github.com/pawl-locks/pawl/fencing"
)

// A Dir is a Store in a directory of a local disk, shared by any number of processes. It is not for
// network file systems. It exists on systems with flock.
//
// Each object is a file, whose first line has the metadata and whose rest is the body. A file is
// replaced whole, by rename, under a lock on the directory itself, which the kernel releases when
// its process dies. File and directory are synced before Put returns, and the directory before Get
// does, so what was written or refused survives a crash of the machine. The objects of a directory
// are written one at a time. A process that is stopped in the middle of a Put blocks the writers of
// the directory for as long, until their contexts end; it does not block readers.
type Dir struct {
	Path string // of a directory that exists
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
	body, m, err := d.parse(name, data, err)
	if err == nil {
		// What a caller acts on must last, and the writer of what is read here may have died before
		// it synced.
		err = syncDir(d.Path)
	}
	if err != nil {
		return nil, Meta{}, "", err
	}
	return body, m, m.version(), nil
}

// parse parses the result of reading an object's file.
func (d Dir) parse(name string, data []byte, err error) ([]byte, Meta, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Meta{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return nil, Meta{}, err
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	m, err := parseHead(string(head), name)
	if err != nil {
		return nil, Meta{}, fmt.Errorf("%s: %w", d.file(name), err)
	}
	return body, m, nil
}

// version is the version of an object in a directory: its nonce.
func (m Meta) version() Version { return Version(m.Nonce) }

// Put replaces the object's file. The nonce of m must be new: it is the version.
func (d Dir) Put(ctx context.Context, name string, body []byte, m Meta, at Version) error {
	l, err := d.lock(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	defer func() { _ = l.unlock() }()
	data, err := l.root.ReadFile(fileName(name))
	_, now, err := d.parse(name, data, err)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if now.version() != at {
		return fmt.Errorf("%w: %q, not %q", ErrChanged, now.version(), at)
	}
	return l.replace(fileName(name), append([]byte(formatHead(m, name)), body...))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// The first word of a file, without and with Meta.Ahead. A version that knows no shared tokens refuses
// the second.
const (
	headMark       = "pawl-blob-1"
	sharedHeadMark = "pawl-blob-2"
)

func formatHead(m Meta, name string) string {
	mark := headMark
	if m.Ahead > 0 {
		mark = fmt.Sprintf("%s %d", sharedHeadMark, int64(m.Ahead))
	}
	return fmt.Sprintf("%s %d %s %t %s\n", mark, int64(m.Token), m.Nonce, m.Absent, strconv.Quote(name))
}

func parseHead(line, name string) (m Meta, err error) {
	var quoted string
	mark, rest, _ := strings.Cut(line, " ")
	if mark == sharedHeadMark {
		var ahead string
		ahead, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseInt(ahead, 10, 64)
		if err != nil || n <= 0 {
			return Meta{}, errors.New("the file is not of this package")
		}
		m.Ahead, mark = fencing.Token(n), headMark
	}
	if n, _ := fmt.Sscanf(rest, "%d %s %t %q", (*int64)(&m.Token), &m.Nonce, &m.Absent, &quoted); n != 4 || mark != headMark || m.Ahead > m.Token {
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

// fileName encodes a name as one path element that is not hidden, has no dot, and differs from
// every other name's even where case does not count. A long one ends in its hash.
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
