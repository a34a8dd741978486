package pawlcertmagic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/kv"
)

// Options are the options of a Storage. The zero value is the default.
type Options struct {
	Prefix string // of the keys of files; "" means "certmagic/"
	Locks  string // put before the names of locks; "" means "certmagic-locks/"
}

// A Storage is a certmagic.Storage on one etcd cluster. Its methods are safe for concurrent
// use.
type Storage struct {
	kv     *kv.Client
	prefix string
	locks  locks
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New makes a Storage; it does no I/O. Config.Namespace is prefixed to the locks' keys, but not
// to the files'.
func New(c *pawl.Client, opts Options) *Storage {
	if opts.Prefix == "" {
		opts.Prefix = "certmagic/"
	}
	if opts.Locks == "" {
		opts.Locks = "certmagic-locks/"
	}
	return &Storage{kv: c.KV(), prefix: opts.Prefix, locks: locks{sessions: c, prefix: opts.Locks, slots: map[string]*slot{}}}
}

// String is what certmagic logs.
func (s *Storage) String() string { return "etcd:" + s.prefix }

// Store writes a file, guarded by the locks that this Storage holds for it. If one of them was
// lost, the error matches kv.ErrFenced and nothing is written.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	stored := append([]byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), value...)
	return s.write(ctx, s.locks.guards(key, false), []kv.Op{kv.Put(s.prefix+clean(key), stored)})
}

// Delete removes a file, or a directory with everything in it, guarded as Store is.
func (s *Storage) Delete(ctx context.Context, key string) error {
	guards := s.locks.guards(key, true)
	below, err := s.kv.List(ctx, s.dir(key), 0)
	if err != nil {
		return err
	}
	var deletes []kv.Op
	if clean(key) != "" {
		deletes = append(deletes, kv.Delete(s.prefix+clean(key)))
	}
	for _, e := range below {
		deletes = append(deletes, kv.Delete(e.Key))
	}
	return s.write(ctx, guards, deletes)
}

// write applies writes in as many transactions as necessary.
func (s *Storage) write(ctx context.Context, guards []kv.Guard, writes []kv.Op) error {
	const atOnce = 64 // of the 128 operations, guards included, that etcd accepts
	for len(writes) > 0 {
		part := writes[:min(atOnce, len(writes))]
		if _, err := s.kv.Txn(ctx, kv.Txn{Guards: guards, Then: part}); err != nil {
			return err
		}
		writes = writes[len(part):]
	}
	return nil
}

// Load reads a file.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	e, err := s.kv.Get(ctx, s.prefix+clean(key))
	if err != nil {
		return nil, err
	}
	f, err := parse(key, e)
	return f.contents, err
}

// Exists reports whether a file or a directory exists. It returns false if etcd does not answer.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// Stat returns when a file was stored, by the clock of the process that stored it, and its
// length.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	e, err := s.kv.Get(ctx, s.prefix+clean(key))
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	f, err := parse(key, e)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: f.modified, Size: int64(len(f.contents)), IsTerminal: true}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return certmagic.KeyInfo{}, err
	}
	below, listErr := s.kv.List(ctx, s.dir(key), 1)
	if listErr != nil {
		return certmagic.KeyInfo{}, listErr
	}
	if len(below) == 0 {
		return certmagic.KeyInfo{}, err
	}
	return certmagic.KeyInfo{Key: key}, nil
}

// List returns the names of the files and directories in a directory, in order. With recursive, it
// includes everything below.
func (s *Storage) List(ctx context.Context, dir string, recursive bool) ([]string, error) {
	below, err := s.kv.List(ctx, s.dir(dir), 0)
	if err != nil {
		return nil, err
	}
	if len(below) == 0 {
		return nil, notThere(dir)
	}
	var names []string
	listed := map[string]bool{}
	for _, e := range below {
		name := clean(dir)
		for _, part := range strings.Split(strings.TrimPrefix(e.Key, s.dir(dir)), "/") {
			if name = path.Join(name, part); !listed[name] {
				listed[name] = true
				names = append(names, name)
			}
			if !recursive {
				break
			}
		}
	}
	return names, nil
}

// dir is the prefix of the keys of all files below a directory. The root is "".
func (s *Storage) dir(key string) string {
	if key = clean(key); key == "" {
		return s.prefix
	}
	return s.prefix + key + "/"
}

// clean removes the slashes at a path's ends.
func clean(key string) string { return strings.Trim(key, "/") }

// A file is the content of an entry in etcd.
type file struct {
	modified time.Time
	contents []byte
}

func parse(key string, e kv.Entry) (file, error) {
	if e.ModRevision == 0 {
		return file{}, notThere(key)
	}
	when, contents, ok := bytes.Cut(e.Value, []byte("\n"))
	modified, err := time.Parse(time.RFC3339Nano, string(when))
	if !ok || err != nil {
		return file{}, fmt.Errorf("certmagic: %q in etcd was not stored by this package", e.Key)
	}
	return file{modified, contents}, nil
}

func notThere(key string) error { return &fs.PathError{Op: "read", Path: key, Err: fs.ErrNotExist} }
